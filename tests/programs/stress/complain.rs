//! Words on standard error when something is wrong, from a fixed buffer: malloc may be what is
//! broken, and this may be the child of a fork.

use std::fmt::{self, Arguments, Write};

struct Line {
    text: [u8; 512],
    used: usize,
}

impl Write for Line {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let n = s.len().min(self.text.len() - self.used);
        self.text[self.used..self.used + n].copy_from_slice(&s.as_bytes()[..n]);
        self.used += n;
        Ok(())
    }
}

/// Says what is wrong, and ends the process.
#[cold]
pub(crate) fn fail(what: Arguments) -> ! {
    let mut line = Line { text: [0; 512], used: 0 };
    // A line that is cut off is better than none.
    let _ = writeln!(line, "stress: {what}");
    // SAFETY: writes initialised bytes of a local variable.
    unsafe { libc::write(2, line.text.as_ptr().cast(), line.used) };
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}
