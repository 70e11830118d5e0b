//! What `FREEHOLD_DEBUG` asks for: a list of words with commas between them.

use core::str;

/// What is done for debugging.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of its own, and any may be there"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Who allocated and freed each object is remembered.
    pub(super) audit: bool,
    /// Objects are filled when they are given out and when they are freed.
    pub(super) patterns: bool,
    /// There are red zones before and after each object.
    pub(super) guards: bool,
    /// Objects of so many bytes or more have inaccessible pages around them; 0: none have.
    pub(super) firewall: usize,
    /// One in so many allocations fails, on average; 0: none does.
    pub(super) failing: u32,
    /// What the choice of those that fail begins with.
    pub(super) seed: u64,
    /// What is still allocated is listed at exit.
    pub(super) leaks: bool,
    /// The signal that asks for a check; 0: none does.
    pub(super) signal: u8,
}

/// What a value of the variable asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Nothing.
    Nothing,
    /// To be told what there is.
    Help,
    /// This.
    For(Options),
}

/// What there is, for who asks for it.
pub(super) const HELP: &[&str] = &[
    "FREEHOLD_DEBUG is a list of these, with commas between them:",
    "  default       audit,patterns,guards; also 1 or on",
    "  audit         reports say who allocated and freed the object",
    "  patterns      fills with 0xbaddcafe when allocated and with 0xdeadbeef when freed;",
    "                looks whether that was written to before the memory is used again",
    "  guards        surrounds objects with 0xfeedface; looks at it when they are freed",
    "  firewall=N    objects of N bytes or more end at an inaccessible page, and become",
    "                inaccessible when freed",
    "  mtbf=N        on average one in N allocations fails with ENOMEM, once the program",
    "                has started",
    "  seed=N        which of them fail (default: 1)",
    "  leaks         lists at exit what is still allocated, reachable or not, by who",
    "                allocated it (with audit)",
    "  check=N       signal N makes the next malloc or free check all objects",
    "  help          this",
];

/// What a value asks for; on an error the word that is none of [`HELP`].
pub(super) fn parse(value: &[u8]) -> Result<Asked, &[u8]> {
    let mut options = Options { seed: 1, ..Options::default() };
    for word in value.split(|&byte| byte == b',').filter(|word| !word.is_empty()) {
        let (name, number) = match word.iter().position(|&byte| byte == b'=') {
            Some(place) => (&word[..place], Some(number(&word[place + 1..]).ok_or(word)?)),
            None => (word, None),
        };
        match (name, number) {
            (b"0" | b"off", None) => {}
            (b"help", None) => return Ok(Asked::Help),
            (b"1" | b"on" | b"default", None) => {
                (options.audit, options.patterns, options.guards) = (true, true, true);
            }
            (b"audit", None) => options.audit = true,
            (b"patterns", None) => options.patterns = true,
            (b"guards", None) => options.guards = true,
            (b"leaks", None) => options.leaks = true,
            (b"firewall", Some(bytes)) => options.firewall = bytes as usize,
            (b"mtbf", Some(mean)) => options.failing = u32::try_from(mean).map_err(|_| word)?,
            (b"seed", Some(seed)) => options.seed = seed,
            (b"check", Some(signal @ 1..=64)) => options.signal = signal as u8,
            _ => return Err(word),
        }
    }
    let nothing = Options { seed: options.seed, ..Options::default() };
    Ok(if options == nothing { Asked::Nothing } else { Asked::For(options) })
}

fn number(digits: &[u8]) -> Option<u64> {
    str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_options() {
        let usual =
            Options { audit: true, patterns: true, guards: true, seed: 1, ..Options::default() };
        let cases: &[(&str, Asked)] = &[
            ("", Asked::Nothing),
            ("0", Asked::Nothing),
            ("off", Asked::Nothing),
            ("seed=7", Asked::Nothing),
            ("mtbf=0", Asked::Nothing),
            ("help", Asked::Help),
            ("audit,help", Asked::Help),
            ("1", Asked::For(usual)),
            ("default,", Asked::For(usual)),
            ("guards,patterns,audit", Asked::For(usual)),
            ("on,leaks,check=10", Asked::For(Options { leaks: true, signal: 10, ..usual })),
            (
                "mtbf=100,seed=3,firewall=4096",
                Asked::For(Options { failing: 100, seed: 3, firewall: 4096, ..Options::default() }),
            ),
        ];
        for (value, expected) in cases {
            assert_eq!(parse(value.as_bytes()).as_ref(), Ok(expected), "{value}");
        }
    }

    #[test]
    fn the_word_that_is_none_is_told() {
        for (value, word) in [
            ("2", "2"),
            ("audit,gaurds", "gaurds"),
            ("mtbf", "mtbf"),
            ("mtbf=", "mtbf="),
            ("mtbf=x,audit", "mtbf=x"),
            ("mtbf=4294967296", "mtbf=4294967296"),
            ("check=0", "check=0"),
            ("check=65", "check=65"),
            ("audit=3", "audit=3"),
        ] {
            assert_eq!(parse(value.as_bytes()), Err(word.as_bytes()), "{value}");
        }
    }
}
