//! What the loader has loaded, searched by name: `dlsym` sees neither what was opened for its
//! opener alone, as plugins are with their C++ library, nor, before glibc 2.34, is it everywhere.
//!
//! Owns nothing. Allocates nothing; the loader's lock is held meanwhile.

use core::ffi::CStr;
use core::ptr;
use freehold_sys::loader::{self, DT_NULL, Entry};
use freehold_sys::own;

const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_GNU_HASH: usize = 0x6fff_fef5;
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;

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

/// The addresses of functions and variables in the first loaded file, other than this library's
/// own, that has all of them.
pub(crate) fn find<const N: usize>(names: [&CStr; N]) -> Option<[*const (); N]> {
    let mut all = None;
    loader::each_file(|file| {
        all = Tables::of(file).and_then(|tables| tables.find_all(names));
        all.is_some()
    });
    all
}

/// The tables of a loaded file, while the loader's lock is held.
struct Tables {
    base: usize,
    symbols: *const Symbol,
    names: *const u8,
    /// `DT_GNU_HASH`, which every file has that was linked in the last fifteen years.
    hashes: *const u32,
}

impl Tables {
    fn of(file: &loader::File) -> Option<Self> {
        let mut entry = ptr::with_exposed_provenance::<Entry>(file.table()?);
        let (mut symbols, mut names, mut hashes) = (0, 0, 0);
        loop {
            // SAFETY: the table ends with an entry that says so.
            let Entry { tag, value } = unsafe { entry.read() };
            // glibc writes addresses to the table; musl, and who can only read it, leave offsets.
            let address =
                if file.contains(value) { value } else { file.base().wrapping_add(value) };
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
        [symbols, names, hashes].into_iter().all(|it| file.contains(it)).then(|| Self {
            base: file.base(),
            symbols: ptr::with_exposed_provenance(symbols),
            names: ptr::with_exposed_provenance(names),
            hashes: ptr::with_exposed_provenance(hashes),
        })
    }

    /// The addresses of what has these names, if all are here and not this library's own.
    fn find_all<const N: usize>(&self, names: [&CStr; N]) -> Option<[*const (); N]> {
        let mut all = [ptr::null(); N];
        for (place, name) in all.iter_mut().zip(names) {
            *place = self.find(name).filter(|&it| !own::is_own(it))?;
        }
        Some(all)
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
