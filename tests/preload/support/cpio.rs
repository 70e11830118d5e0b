//! The archive that a kernel unpacks as its first file system. Source: the kernel's
//! `driver-api/early-userspace/buffer-format.rst`.

/// The type of a file and its rights, as in `stat(2)`.
const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;

/// Files and directories, in the order in which they were added.
#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a directory, whose parent was added before.
    pub(crate) fn directory(&mut self, path: &str) {
        self.entry(path, DIRECTORY, &[]);
    }

    /// Adds a file that may be executed, whose directory was added before.
    pub(crate) fn file(&mut self, path: &str, contents: &[u8]) {
        self.entry(path, FILE, contents);
    }

    fn entry(&mut self, path: &str, mode: u32, contents: &[u8]) {
        self.entries += 1;
        let name = path.trim_start_matches('/');
        let bytes = u32::try_from(contents.len()).expect("a file of less than 4 GiB");
        let name_bytes = u32::try_from(name.len() + 1).expect("a short name");
        // Number, mode, user, group, links, time, bytes, two devices, length of the name, checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, bytes, 0, 0, 0, 0, name_bytes, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The archive with its end.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}
