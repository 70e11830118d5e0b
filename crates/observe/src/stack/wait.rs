//! What a stack says about a wait: what kind it is, and who waits. It knows the names of functions
//! and nothing of where they come from.

use freehold_model::{Frame, WaitKind};

/// A frame as it is judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judged<'a> {
    /// Its names.
    pub(crate) frame: &'a Frame,
    /// Whether its file is an allocator's.
    pub(crate) in_allocator: bool,
    /// Whether its file is the C library or the loader.
    pub(crate) in_c_library: bool,
}

/// Parts of function names, and the kind of wait that each means. The innermost frame that has one
/// decides: a thread that was woken from a condition variable may wait for its lock.
const SIGNS: &[(&str, WaitKind)] = &[
    ("lll_lock_wait", WaitKind::Lock),
    ("pthread_mutex", WaitKind::Lock),
    ("pthread_rwlock", WaitKind::Lock),
    ("pthread_spin", WaitKind::Lock),
    ("pthread_cond_", WaitKind::Condition),
    ("condition_variable", WaitKind::Condition),
    ("Condvar", WaitKind::Condition),
    ("PyCOND_", WaitKind::Condition),
    ("pthread_join", WaitKind::Join),
    ("pthread_timedjoin", WaitKind::Join),
    ("pthread_clockjoin", WaitKind::Join),
    ("sem_wait", WaitKind::Semaphore),
    ("sem_timedwait", WaitKind::Semaphore),
    ("sem_clockwait", WaitKind::Semaphore),
    ("new_sem_wait", WaitKind::Semaphore),
    ("pthread_barrier", WaitKind::Barrier),
    ("Mutex", WaitKind::Lock),
    ("mutex_lock", WaitKind::Lock),
    ("RwLock", WaitKind::Lock),
    ("SpinLock", WaitKind::Lock),
    ("lock_contended", WaitKind::Lock),
    ("lock_slow", WaitKind::Lock),
    ("Semaphore", WaitKind::Semaphore),
    ("Barrier", WaitKind::Barrier),
    ("::park", WaitKind::Park),
];

/// Functions that take a lock which is made of a condition variable: those of interpreters that run
/// one thread at a time.
const INTERPRETERS: &[&str] =
    &["take_gil", "PyEval_RestoreThread", "PyEval_AcquireThread", "gvl_acquire"];

/// Data of such interpreters in which there is no condition variable but those of that lock. The
/// functions may have no names.
const INTERPRETERS_DATA: &str = "_PyRuntime";

/// Functions that are entered from a program to allocate or free.
const ENTRIES: &[&str] = &[
    "malloc",
    "free",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "cfree",
    "free_sized",
    "free_aligned_sized",
    "malloc_trim",
    "malloc_usable_size",
];

/// What allocators put before such a name.
const PREFIXES: &[&str] =
    &["__libc_", "__GI___libc_", "__GI_", "_int_", "__", "je_", "_rjem_", "mi_", "tc_", "rp"];

/// Whether a function is an allocator's.
pub(crate) fn is_allocating(function: &str) -> bool {
    let is_entry = |name: &str| ENTRIES.contains(&name);
    let stripped = PREFIXES.iter().filter_map(|prefix| function.strip_prefix(prefix));
    is_entry(function)
        || stripped.into_iter().any(is_entry)
        || function.starts_with("operator new")
        || function.starts_with("operator delete")
        || function.starts_with("arena_get")
        || function.starts_with("tcache_")
}

/// How the names of functions begin that belong to a language rather than to a program.
const LIBRARIES: &[&str] = &["std::", "core::", "alloc::", "__gthread"];

impl Judged<'_> {
    /// Whether the frame belongs to an allocator. Names alone decide only within the C library,
    /// and for allocators that are part of the program.
    pub(crate) fn is_allocator(&self) -> bool {
        self.in_allocator || is_allocating(&self.frame.function)
    }

    /// Whether the frame is between the lock and whoever wanted it.
    fn is_machinery(&self) -> bool {
        // A method is written with its type in brackets.
        let function = self.frame.function.trim_start_matches('<');
        self.in_c_library
            || self.is_allocator()
            || SIGNS.iter().any(|(sign, _)| function.contains(sign))
            || LIBRARIES.iter().any(|library| function.starts_with(library))
            || self.frame.module.starts_with("libstdc++")
    }
}

/// The kind of wait that a stack shows, for a word in the data of this name, if it has one.
pub(crate) fn kind(stack: &[Judged<'_>], datum: Option<&str>) -> WaitKind {
    let sign = |judged: &Judged<'_>| {
        let function = &judged.frame.function;
        SIGNS.iter().find(|(sign, _)| function.contains(sign)).map(|(_, kind)| *kind)
    };
    let is_interpreters =
        |judged: &Judged<'_>| INTERPRETERS.contains(&judged.frame.function.as_str());
    let is_interpreters = datum == Some(INTERPRETERS_DATA) || stack.iter().any(is_interpreters);
    let kind = stack.iter().find_map(sign).map(|kind| match kind {
        WaitKind::Condition if is_interpreters => WaitKind::Lock,
        other => other,
    });
    let in_allocator = stack.iter().any(Judged::is_allocator);
    match kind {
        // Within an allocator nothing else is waited for.
        None | Some(WaitKind::Lock) if in_allocator => WaitKind::AllocatorLock,
        Some(kind) => kind,
        None => WaitKind::Other,
    }
}

/// Who wanted what is waited for: the innermost frame that is not machinery, or else the outermost
/// that is not of the C library, if there is one.
pub(crate) fn caller(stack: &[Judged<'_>]) -> Frame {
    let own = stack.iter().find(|judged| !judged.is_machinery());
    let outermost = || stack.iter().rfind(|judged| !judged.in_c_library);
    let caller = own.or_else(outermost).or(stack.last());
    caller.map(|judged| judged.frame.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stack of functions, those of the C library marked by a leading `@`, those of an
    /// allocator's library by a `+`.
    fn judge<T>(functions: &[&str], judge: impl Fn(&[Judged<'_>]) -> T) -> T {
        let frame = |name: &&str| Frame {
            function: name.trim_start_matches(['@', '+']).to_owned(),
            ..Frame::default()
        };
        let frames: Vec<_> = functions.iter().map(frame).collect();
        let judged = frames.iter().zip(functions).map(|(frame, name)| Judged {
            frame,
            in_allocator: name.starts_with('+'),
            in_c_library: name.starts_with('@'),
        });
        judge(&judged.collect::<Vec<_>>())
    }

    /// The kind of wait for a word without a name.
    fn unnamed(stack: &[Judged<'_>]) -> WaitKind {
        kind(stack, None)
    }

    #[test]
    fn locks_within_an_allocator_are_told_from_those_of_the_program() {
        let arena = ["@__lll_lock_wait_private", "@_int_free", "@free", "release", "main"];
        assert_eq!(judge(&arena, unnamed), WaitKind::AllocatorLock);
        let stripped = ["@__lll_lock_wait_private", "@0x9a3f0", "@__libc_malloc", "grow"];
        assert_eq!(judge(&stripped, unnamed), WaitKind::AllocatorLock);
        let other = ["@__lll_lock_wait", "@pthread_mutex_lock", "+0x1234", "push"];
        assert_eq!(judge(&other, unnamed), WaitKind::AllocatorLock);
        let spin = ["+syscall", "+SpinLockDelay", "+tcmalloc::CentralFreeList::Populate"];
        assert_eq!(judge(&spin, unnamed), WaitKind::AllocatorLock);
        let own = ["@__lll_lock_wait", "@___pthread_mutex_lock", "push", "main"];
        assert_eq!(judge(&own, unnamed), WaitKind::Lock);
    }

    #[test]
    fn threads_with_nothing_to_do_are_not_contention() {
        let idle = ["@__futex_abstimed_wait_common", "@pthread_cond_wait", "worker"];
        assert_eq!(judge(&idle, unnamed), WaitKind::Condition);
        let join = ["@__futex_abstimed_wait_common", "@__pthread_clockjoin_ex", "main"];
        assert_eq!(judge(&join, unnamed), WaitKind::Join);
        assert_eq!(judge(&["@__new_sem_wait_slow64", "take"], unnamed), WaitKind::Semaphore);
        assert_eq!(judge(&["@syscall", "own_wait"], unnamed), WaitKind::Other);
        assert_eq!(judge(&[], unnamed), WaitKind::Other);
    }

    #[test]
    fn a_thread_woken_from_a_condition_variable_may_wait_for_its_lock() {
        let stack = ["@__lll_lock_wait", "@__pthread_mutex_cond_lock", "@pthread_cond_wait", "f"];
        assert_eq!(judge(&stack, unnamed), WaitKind::Lock);
    }

    #[test]
    fn the_lock_of_an_interpreter_is_a_lock_though_it_is_made_of_a_condition() {
        let stack = ["@pthread_cond_timedwait", "PyCOND_TIMEDWAIT", "take_gil", "lock_acquire"];
        assert_eq!(judge(&stack, unnamed), WaitKind::Lock);
        assert_eq!(judge(&stack, caller).function, "take_gil");
        let stripped = ["@pthread_cond_timedwait", "0x4cec51", "0x4d1000"];
        assert_eq!(judge(&stripped, unnamed), WaitKind::Condition);
        let named = |stack: &[Judged<'_>]| kind(stack, Some("_PyRuntime"));
        assert_eq!(judge(&stripped, named), WaitKind::Lock);
        let idle = ["@pthread_cond_timedwait", "PyThread_acquire_lock_timed", "lock_acquire"];
        assert_eq!(judge(&idle, unnamed), WaitKind::Condition);
    }

    #[test]
    fn rust_locks_are_known() {
        let lock = ["@syscall", "std::sys::sync::mutex::futex::Mutex::lock_contended", "app::put"];
        assert_eq!(judge(&lock, unnamed), WaitKind::Lock);
        assert_eq!(judge(&lock, caller).function, "app::put");
        let method = ["@syscall", "<std::sync::Mutex>::lock", "<alloc::Vec<T>>::push", "app::put"];
        assert_eq!(judge(&method, caller).function, "app::put");
        let inlined = ["@syscall", "<std::sync::Mutex>::lock", "std::thread_start", "@clone3"];
        assert_eq!(judge(&inlined, caller).function, "std::thread_start");
    }

    #[test]
    fn the_caller_is_the_first_function_of_the_program() {
        let stack = ["@__lll_lock_wait_private", "@malloc", "operator new", "grow", "main"];
        assert_eq!(judge(&stack, caller).function, "grow");
        assert_eq!(judge(&["@a", "@b"], caller).function, "b");
        assert_eq!(judge(&[], caller), Frame::default());
    }

    #[test]
    fn allocators_functions_are_known_by_name_and_others_are_not() {
        for name in ["malloc", "__libc_free", "_int_malloc", "je_calloc", "operator new[]"] {
            assert!(is_allocating(name), "{name}");
        }
        for name in ["mallocator", "freeze", "my_free", "main"] {
            assert!(!is_allocating(name), "{name}");
        }
    }
}
