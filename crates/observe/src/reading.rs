//! Reading another process' memory, which goes on meanwhile.

use std::io::IoSliceMut;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// Copies memory of a process, as much as there is at once; nothing if it may not be read.
pub(crate) fn copy(pid: u32, from: u64, into: &mut [u8]) -> usize {
    let Ok(base) = usize::try_from(from) else { return 0 };
    let remote = [RemoteIoVec { base, len: into.len() }];
    let pid = Pid::from_raw(pid.cast_signed());
    process_vm_readv(pid, &mut [IoSliceMut::new(into)], &remote).unwrap_or(0)
}

/// A window that moves over a process' memory.
pub(crate) struct Window {
    pid: u32,
    from: u64,
    bytes: Vec<u8>,
    valid: usize,
}

impl Window {
    pub(crate) fn over(pid: u32) -> Self {
        const BYTES: usize = 1 << 20;
        Self { pid, from: 0, bytes: vec![0; BYTES], valid: 0 }
    }

    /// The word at an address.
    pub(crate) fn word(&mut self, address: u64) -> Option<u64> {
        let has = |own: &Self| {
            let at = usize::try_from(address.checked_sub(own.from)?).ok()?;
            let bytes = own.bytes[..own.valid].get(at..at.checked_add(8)?)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        has(self).or_else(|| {
            self.from = address;
            self.valid = copy(self.pid, address, &mut self.bytes);
            has(self)
        })
    }
}
