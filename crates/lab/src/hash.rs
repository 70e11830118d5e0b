//! Hashes of files, so that a number can name the very library it was measured with.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use freehold_model::Library;
use sha2::{Digest, Sha256};

/// Hashes and measures the file at `path`.
pub fn library(path: &Path) -> io::Result<Library> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        hasher.update(&buffer[..read]);
    }
    let sha256 = hasher.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    Ok(Library { path: path.to_string_lossy().into_owned(), bytes, sha256 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_an_empty_file_is_the_published_one() {
        let library = library(Path::new("/dev/null")).expect("readable");
        assert_eq!(library.bytes, 0);
        assert_eq!(
            library.sha256,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
