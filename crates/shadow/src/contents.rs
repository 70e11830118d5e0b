//! What stands in an object, so that whoever else writes to it is found.

/// Objects to this size have something every so many bytes; larger ones have less, since touching
/// all their pages takes longer than anything else.
const DENSE: usize = 64 << 10;
const STEP: usize = 509;
const WIDE_STEP: usize = STEP * 127;

/// The places of an object that have contents.
fn places(size: usize) -> impl Iterator<Item = usize> {
    let step = if size <= DENSE { STEP } else { WIDE_STEP };
    (0..size).step_by(step).chain(size.checked_sub(1))
}

/// Fills an object with what only its owner knows.
pub fn fill(address: usize, size: usize, tag: u64) {
    for i in places(size) {
        // SAFETY: inside an object of the caller's.
        unsafe { (address as *mut u8).add(i).write((tag ^ i as u64) as u8) };
    }
}

/// Checks what [`fill`] wrote.
pub fn check(address: usize, size: usize, tag: u64) {
    check_start(address, size, size, tag);
}

/// Checks the first `kept` bytes of what [`fill`] wrote to an object of `size` bytes.
pub fn check_start(address: usize, kept: usize, size: usize, tag: u64) {
    for i in places(size).filter(|&i| i < kept) {
        // SAFETY: inside an object of the caller's.
        let found = unsafe { (address as *const u8).add(i).read() };
        assert_eq!(found, (tag ^ i as u64) as u8, "byte {i} of {kept} at {address:#x}");
    }
}
