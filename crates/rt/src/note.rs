//! A mark by which others recognise Freehold in a program or library: an ELF note with the version.
//! Present in libfreehold and in every Rust program that links Freehold. Source: `elf(5)`.

const TEXT: &str = env!("CARGO_PKG_VERSION");
const NAME: [u8; 12] = *b"Freehold\0\0\0\0";
/// The version is the note's only type so far.
const VERSION: u32 = 1;

#[repr(C, align(4))]
struct Note {
    name_bytes: u32,
    text_bytes: u32,
    kind: u32,
    name: [u8; 12],
    text: [u8; 16],
}

#[used]
#[unsafe(link_section = ".note.freehold")]
static NOTE: Note = Note {
    name_bytes: 9,
    text_bytes: 16,
    kind: VERSION,
    name: NAME,
    text: {
        let mut text = [0; 16];
        let mut i = 0;
        while i < TEXT.len() {
            text[i] = TEXT.as_bytes()[i];
            i += 1;
        }
        text
    },
};
