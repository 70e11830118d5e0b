//! What the loader has loaded, searched by name: `dlsym` sees neither what was opened for its
//! opener alone, as plugins are with their C++ library, nor, before glibc 2.34, is it everywhere.
//!
//! Owns nothing. Allocates nothing; the loader's lock is held meanwhile.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::{ptr, slice};
use freehold_sys::own;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NULL: usize = 0;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_GNU_HASH: usize = 0x6fff_fef5;
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;

/// The beginning of `struct dl_phdr_info`.
#[repr(C)]
struct Info {
    base: usize,
    name: *const c_char,
    headers: *const Header,
    count: u16,
}

/// `Elf64_Phdr`.
#[repr(C)]
struct Header {
    kind: u32,
    flags: u32,
    offset: usize,
    address: usize,
    physical: usize,
    size_in_file: usize,
    size: usize,
    align: usize,
}

/// `Elf64_Dyn`.
#[repr(C)]
struct Entry {
    tag: usize,
    value: usize,
}

/// `Elf64_Sym`.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: usize,
}

type Visitor = unsafe extern "C" fn(*mut Info, usize, *mut c_void) -> c_int;

unsafe extern "C" {
    fn dl_iterate_phdr(visitor: Option<Visitor>, data: *mut c_void) -> c_int;
}

/// What [`visit`] looks for, and finds.
struct Search<'a, const N: usize> {
    names: [&'a CStr; N],
    found: Option<[*const (); N]>,
}

/// The addresses of functions and variables in the first loaded file, other than this library's
/// own, that has all of them.
pub(crate) fn find<const N: usize>(names: [&CStr; N]) -> Option<[*const (); N]> {
    let mut search = Search { names, found: None };
    // SAFETY: the function is of the kind asked for, and the search outlives the call.
    unsafe { dl_iterate_phdr(Some(visit::<N>), (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn visit<const N: usize>(
    info: *mut Info,
    _: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: the loader's description of a file, and the search that was passed with this
    // function.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search<'_, N>>()) };
    // SAFETY: the description is the loader's, whose lock is held.
    let Some(file) = (unsafe { File::of(info) }) else { return 0 };
    let mut found = [ptr::null(); N];
    for (place, name) in found.iter_mut().zip(search.names) {
        match file.find(name) {
            Some(address) if !own::is_own(address) => *place = address,
            _ => return 0,
        }
    }
    search.found = Some(found);
    1
}

/// The tables of a loaded file, while the loader's lock is held.
struct File {
    base: usize,
    symbols: *const Symbol,
    names: *const u8,
    /// `DT_GNU_HASH`, which every file has that was linked in the last fifteen years.
    hashes: *const u32,
}

impl File {
    /// # Safety
    /// `info` is the loader's, which holds its lock.
    unsafe fn of(info: &Info) -> Option<Self> {
        if info.headers.is_null() {
            return None;
        }
        // SAFETY: the program headers of a loaded file.
        let headers = unsafe { slice::from_raw_parts(info.headers, info.count.into()) };
        let is_loaded = |address: usize| {
            let mut loaded = headers.iter().filter(|it| it.kind == PT_LOAD);
            let offset = address.wrapping_sub(info.base);
            loaded.any(|it| offset.wrapping_sub(it.address) < it.size)
        };
        let dynamic = headers.iter().find(|it| it.kind == PT_DYNAMIC)?;
        let mut entry =
            ptr::with_exposed_provenance::<Entry>(info.base.wrapping_add(dynamic.address));
        let (mut symbols, mut names, mut hashes) = (0, 0, 0);
        loop {
            // SAFETY: the table ends with an entry that says so.
            let Entry { tag, value } = unsafe { entry.read() };
            // glibc writes addresses to the table; musl, and who can only read it, leave offsets.
            let address = if is_loaded(value) { value } else { info.base.wrapping_add(value) };
            match tag {
                DT_NULL => break,
                DT_SYMTAB => symbols = address,
                DT_STRTAB => names = address,
                DT_GNU_HASH => hashes = address,
                _ => {}
            }
            // SAFETY: this was not the last one.
            entry = unsafe { entry.add(1) };
        }
        [symbols, names, hashes].into_iter().all(is_loaded).then(|| Self {
            base: info.base,
            symbols: ptr::with_exposed_provenance(symbols),
            names: ptr::with_exposed_provenance(names),
            hashes: ptr::with_exposed_provenance(hashes),
        })
    }

    /// The address of a function or variable that the file has under a name. Source:
    /// `do_lookup_x` and `_dl_setup_hash` of glibc.
    fn find(&self, name: &CStr) -> Option<*const ()> {
        let step = |hash: u32, &byte: &u8| hash.wrapping_mul(33).wrapping_add(byte.into());
        let hash = name.to_bytes().iter().fold(5381, step);
        // SAFETY: the table begins with four numbers; a filter of words, buckets, and a hash for
        // each symbol from `first` on follow, of which the last of a bucket is odd.
        unsafe {
            let word = |index: usize| self.hashes.add(index).read();
            let (buckets, first, filter) = (word(0), word(1), word(2));
            let buckets_at = 4 + 2 * filter as usize;
            let mut index = word(buckets_at + hash.checked_rem(buckets)? as usize);
            if index < first {
                return None;
            }
            loop {
                let other = word(buckets_at + (buckets + (index - first)) as usize);
                let symbol = &*self.symbols.add(index as usize);
                if other | 1 == hash | 1 && self.is_definition(symbol, name) {
                    let address = self.base.wrapping_add(symbol.value);
                    return Some(ptr::with_exposed_provenance(address));
                }
                if other & 1 != 0 {
                    return None;
                }
                index += 1;
            }
        }
    }

    fn is_definition(&self, symbol: &Symbol, name: &CStr) -> bool {
        let is_named = || {
            let mut bytes = name.to_bytes_with_nul().iter().zip(symbol.name as usize..);
            // SAFETY: names of symbols are offsets of strings that end with a zero, and no byte
            // behind the first that differs is read.
            bytes.all(|(&byte, at)| byte == unsafe { self.names.add(at).read() })
        };
        symbol.section != 0 && matches!(symbol.info & 15, STT_OBJECT | STT_FUNC) && is_named()
    }
}
