//! Numbers in the environment. Read from the kernel, since the first allocation may come before
//! the C library knows its own environment.

use freehold_sys::process::File;

/// The value of a variable that is a whole number in decimal.
pub(crate) fn number(name: &str) -> Option<usize> {
    let mut search = Search { name: name.as_bytes(), matched: 0, state: State::Name, value: None };
    let file = File::open(c"/proc/self/environ")?;
    let mut buffer = [0; 512];
    loop {
        let read = file.read(&mut buffer);
        if read == 0 {
            return search.value;
        }
        for byte in &buffer[..read] {
            if search.is_over(*byte) {
                return search.value;
            }
        }
    }
}

enum State {
    /// Within a name that is right so far.
    Name,
    /// Within what does not matter, until the next variable.
    Other,
    /// Within the value.
    Value,
}

/// A variable that is being looked for, byte by byte.
struct Search<'a> {
    name: &'a [u8],
    matched: usize,
    state: State,
    value: Option<usize>,
}

impl Search<'_> {
    /// Looks at the next byte, and tells whether the value has ended.
    fn is_over(&mut self, byte: u8) -> bool {
        match (&self.state, byte) {
            (State::Value, b'0'..=b'9') => {
                let digit = usize::from(byte - b'0');
                // Too large a number stays the largest: all that are asked for have bounds.
                self.value = Some(self.value.unwrap_or(0).saturating_mul(10).saturating_add(digit));
            }
            (State::Value, 0) => return true,
            (State::Value, _) => {
                self.value = None;
                return true;
            }
            (_, 0) => (self.state, self.matched) = (State::Name, 0),
            (State::Name, b'=') if self.matched == self.name.len() => self.state = State::Value,
            (State::Name, _) if self.name.get(self.matched) == Some(&byte) => self.matched += 1,
            (State::Name, _) => self.state = State::Other,
            (State::Other, _) => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, environment: &str) -> Option<usize> {
        let mut search =
            Search { name: name.as_bytes(), matched: 0, state: State::Name, value: None };
        environment.bytes().any(|byte| search.is_over(byte));
        search.value
    }

    #[test]
    fn a_variable_is_found_by_its_whole_name_and_must_be_a_number() {
        let environment = "HOME=/\0XSIZE=1\0SIZ=2\0SIZE=30\0SIZE_=4\0WORD=3x\0EMPTY=\0";
        assert_eq!(found("SIZE", environment), Some(30));
        assert_eq!(found("HOME", environment), None);
        assert_eq!(found("WORD", environment), None);
        assert_eq!(found("EMPTY", environment), None);
        assert_eq!(found("NONE", environment), None);
        assert_eq!(found("HUGE", "HUGE=99999999999999999999012\0"), Some(usize::MAX));
    }
}
