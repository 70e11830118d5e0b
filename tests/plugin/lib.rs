//! A plugin in Rust whose allocator is Freehold: what `preload/c/plugin_with_freehold.c` is in C.

#[global_allocator]
static ALLOCATOR: freehold::Freehold = freehold::Freehold;

/// Allocates small objects and 64 MiB of larger ones, and frees them. In a process of several
/// threads that is enough for Freehold to have one of its own.
// SAFETY: the name is this library's alone.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_work() {
    let small: Vec<Vec<u8>> = (0..1000).map(|size| vec![1; size]).collect();
    let large: Vec<Vec<u8>> = (0..64).map(|_| vec![1; 1 << 20]).collect();
    assert!(freehold::owns(small[1].as_ptr()) && freehold::owns(large[0].as_ptr()));
}
