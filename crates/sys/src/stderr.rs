//! Text to standard error from places where nothing may be allocated.

use crate::syscall::{self, number};
use core::fmt;

/// A message under construction: a fixed buffer that is written with one `write(2)` when it is
/// dropped, so that messages of several threads do not mix. What does not fit is left out.
pub struct Message {
    text: [u8; 1024],
    used: usize,
}

impl Message {
    /// An empty message.
    pub fn new() -> Self {
        Self { text: [0; 1024], used: 0 }
    }
}

impl Default for Message {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Write for Message {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let free = self.text.len() - self.used;
        let n = s.len().min(free);
        self.text[self.used..self.used + n].copy_from_slice(&s.as_bytes()[..n]);
        self.used += n;
        Ok(())
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: the first `used` bytes of the buffer are initialised and live during the call.
        unsafe {
            syscall::call(number::WRITE, [2, self.text.as_ptr() as usize, self.used, 0, 0, 0]);
        }
    }
}
