//! What stands in an object, so that whoever else writes to it is found.

/// Fills an object with what only its owner knows.
pub fn fill(address: usize, size: usize, tag: u64) {
    for i in (0..size).step_by(509).chain(size.checked_sub(1)) {
        // SAFETY: inside an object of the caller's.
        unsafe { (address as *mut u8).add(i).write((tag ^ i as u64) as u8) };
    }
}

/// Checks what [`fill`] wrote.
pub fn check(address: usize, size: usize, tag: u64) {
    for i in (0..size).step_by(509).chain(size.checked_sub(1)) {
        // SAFETY: inside an object of the caller's.
        let found = unsafe { (address as *const u8).add(i).read() };
        assert_eq!(found, (tag ^ i as u64) as u8, "byte {i} of {size} at {address:#x}");
    }
}

/// Checks the first `kept` bytes of what [`fill`] wrote to an object of `size` bytes.
pub(crate) fn check_start(address: usize, kept: usize, size: usize, tag: u64) {
    if kept == size {
        return check(address, size, tag);
    }
    for i in (0..kept).step_by(509) {
        // SAFETY: inside an object of the caller's.
        let found = unsafe { (address as *const u8).add(i).read() };
        assert_eq!(found, (tag ^ i as u64) as u8, "byte {i} of {kept} kept at {address:#x}");
    }
}
