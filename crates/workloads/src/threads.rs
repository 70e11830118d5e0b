//! Threads that may start each other, and whose start and end call `malloc` no more than
//! `pthread_create` and `pthread_join` do by themselves. They cannot outlive the scope that they
//! are started in. It must not know what they do.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::thread;

use crate::mapping::{Mapping, Zeroed};

/// Room for a thread's stack: enough for what runs here, and little enough for the C library to
/// keep the stacks of threads that ended for those that are started next.
const STACK_BYTES: usize = 256 * 1024;

/// No thread has this job.
const IDLE: u32 = 0;
/// A thread has it, or had it and was not joined.
const STARTED: u32 = 1;
/// Somebody is waiting for the end of that thread.
const JOINING: u32 = 2;

/// A place for a thread. Whoever moves `state` from IDLE to STARTED starts the thread, and whoever
/// moves it from STARTED to JOINING joins it and sets it back to IDLE.
struct Job {
    state: AtomicU32,
    /// Set by whoever starts the thread, once it is known.
    handle: AtomicUsize,
    scope: AtomicPtr<c_void>,
}

// SAFETY: two integers and a pointer; a state of zero is IDLE.
unsafe impl Zeroed for Job {}

/// What a thread does, given its job's number.
type Body<'a> = dyn Fn(&Scope<'_>, usize) + Sync + 'a;

/// Where threads may be started.
pub(crate) struct Scope<'a> {
    body: &'a Body<'a>,
    jobs: Mapping<Job>,
}

/// Runs `main` with a scope of so many jobs, each of which is `body` in a thread of its own once
/// it is started. Returns when no thread is left.
pub(crate) fn scope<R>(
    jobs: usize,
    body: &Body<'_>,
    main: impl FnOnce(&Scope<'_>) -> R,
) -> io::Result<R> {
    let scope = Scope { body, jobs: Mapping::zeroed(jobs)? };
    let joining = JoinAll(&scope);
    let result = main(joining.0);
    drop(joining);
    Ok(result)
}

/// Joins all threads when it is dropped, so that they never outlive what they borrow.
struct JoinAll<'a>(&'a Scope<'a>);

impl Drop for JoinAll<'_> {
    fn drop(&mut self) {
        // A thread may start another while it is being waited for; but a pass that finds none
        // leaves nobody who could.
        let jobs = self.0.jobs.len();
        while (0..jobs).filter(|&job| self.0.join(job)).count() > 0 {}
    }
}

impl Scope<'_> {
    /// Starts the thread of a job that is not being done.
    pub(crate) fn start(&self, number: usize) -> io::Result<()> {
        let job = &self.jobs[number];
        let taken = job.state.compare_exchange(IDLE, STARTED, Ordering::Acquire, Ordering::Relaxed);
        assert!(taken.is_ok(), "job {number} is being done already");
        job.scope.store(ptr::from_ref(self).cast_mut().cast(), Ordering::Relaxed);
        match create(ptr::from_ref(job).cast_mut().cast()) {
            Ok(handle) => {
                // Release pairs with the acquire in `join`.
                job.handle.store(handle, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                job.state.store(IDLE, Ordering::Release);
                Err(error)
            }
        }
    }

    /// Waits until the thread of a job has ended. Returns whether there was one.
    pub(crate) fn join(&self, number: usize) -> bool {
        let job = &self.jobs[number];
        loop {
            let claim = (STARTED, JOINING, Ordering::Acquire, Ordering::Acquire);
            match job.state.compare_exchange(claim.0, claim.1, claim.2, claim.3) {
                Ok(_) => break,
                Err(IDLE) => return false,
                // Another thread joins it, and will be done soon.
                Err(_) => thread::yield_now(),
            }
        }
        // Whoever started it may not yet have come to store the handle.
        let handle = loop {
            match job.handle.swap(0, Ordering::Acquire) {
                0 => thread::yield_now(),
                handle => break handle,
            }
        };
        // SAFETY: the handle is that of a thread that was not joined before: only one thread may
        // move the state to JOINING, and the handle was taken out.
        let status = unsafe { libc::pthread_join(handle as libc::pthread_t, ptr::null_mut()) };
        debug_assert_eq!(status, 0);
        job.state.store(IDLE, Ordering::Release);
        true
    }

    fn number_of(&self, job: *const Job) -> usize {
        (job as usize - self.jobs.as_ptr() as usize) / size_of::<Job>()
    }
}

fn create(job: *mut c_void) -> io::Result<usize> {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: the pointer is to writable memory of the right type.
    check(unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) })?;
    // SAFETY: initialised just now.
    check(unsafe { libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES) })?;
    let mut handle = MaybeUninit::uninit();
    // SAFETY: the attributes are initialised, and `run` takes a pointer to a job, which is mapped
    // until the thread has been joined.
    let status =
        unsafe { libc::pthread_create(handle.as_mut_ptr(), attributes.as_ptr(), run, job) };
    check(status)?;
    // SAFETY: set by `pthread_create`, which succeeded. A number or a pointer, by the C library.
    Ok(unsafe { handle.assume_init() } as usize)
}

fn check(status: i32) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(status)) }
}

/// Where a thread begins.
extern "C" fn run(job: *mut c_void) -> *mut c_void {
    // SAFETY: the pointer was made from a job of a scope that outlives this thread.
    let job = unsafe { &*job.cast::<Job>() };
    let scope = job.scope.load(Ordering::Relaxed).cast::<Scope<'_>>();
    // SAFETY: the same scope; it joins this thread before it ends, and its body is `Sync`.
    let scope = unsafe { &*scope };
    (scope.body)(scope, scope.number_of(job));
    ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_gone_when_the_scope_ends_and_may_start_each_other() {
        let visits = Mapping::<AtomicU32>::zeroed(100).expect("maps");
        let body = |scope: &Scope<'_>, number: usize| {
            visits[number].fetch_add(1, Ordering::Relaxed);
            if number + 10 < 100 {
                scope.start(number + 10).expect("starts");
            }
        };
        let main = |scope: &Scope<'_>| (0..10).for_each(|job| scope.start(job).expect("starts"));
        scope(100, &body, main).expect("maps");
        assert!(visits.iter().all(|visits| visits.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn a_successor_joins_its_predecessor_and_the_job_can_be_done_again() {
        let count = AtomicU32::new(0);
        let body = |scope: &Scope<'_>, number: usize| {
            let successor = number ^ 1;
            // By this one, unless the end of the scope was first.
            scope.join(successor);
            count.fetch_add(1, Ordering::Relaxed);
            if count.load(Ordering::Relaxed) < 50 {
                scope.start(successor).expect("starts");
            }
        };
        scope(2, &body, |scope| scope.start(0).expect("starts")).expect("maps");
        assert_eq!(count.load(Ordering::Relaxed), 50);
    }
}
