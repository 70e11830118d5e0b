//! `cargo xtask kernels`: fetches kernels of Debian's for the virtual machines that tests boot
//! (`tests/preload/machines.rs`) into `target/kernels`.
//!
//! They come by apt, with a list of packages and a cache of their own: it checks the signature of
//! the archive and the hash of each package, and whatever this machine says of mirrors and proxies
//! holds. Nothing is installed.

use crate::metadata;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A kernel: its name here, the package of Debian that depends on the newest, and its architecture.
const KERNELS: [(&str, &str, &str); 2] = [
    ("arm64-16k", "linux-image-arm64-16k", "arm64"),
    ("cloud-amd64", "linux-image-cloud-amd64", "amd64"),
];

const ARCHIVE: &str = "http://deb.debian.org/debian trixie main";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Fetches the kernels that are not there. Findings: those that could not be had, and why.
pub(crate) fn fetch() -> Vec<String> {
    let place = metadata::target(&metadata::read(false)).join("kernels");
    let missing: Vec<_> = KERNELS.iter().filter(|(name, ..)| !place.join(name).exists()).collect();
    if missing.is_empty() {
        println!("all kernels are in {}", place.display());
        return Vec::new();
    }
    let apt = match Apt::new(&place.join("apt")) {
        Ok(apt) => apt,
        Err(reason) => return vec![reason],
    };
    let fetched = |&&(name, package, architecture): &&(&str, &str, &str)| {
        let kernel = apt.kernel(package, architecture, &place.join(name));
        match kernel {
            Ok(version) => println!("{name:12} {version}"),
            Err(reason) => return Some(format!("{name}: {reason}")),
        }
        None
    };
    missing.iter().filter_map(fetched).collect()
}

/// apt with a state of its own in a directory.
struct Apt(PathBuf);

impl Apt {
    /// With the lists of the archive, which are fetched.
    fn new(directory: &Path) -> Result<Self, String> {
        let written = |error| format!("{}: {error}", directory.display());
        for part in ["lists/partial", "cache/archives/partial", "packages"] {
            fs::create_dir_all(directory.join(part)).map_err(written)?;
        }
        let architectures: Vec<_> = KERNELS.iter().map(|(.., it)| *it).collect();
        let architectures = architectures.join(",");
        let source = format!("deb [arch={architectures} signed-by={KEYS}] {ARCHIVE}\n");
        fs::write(directory.join("sources.list"), source).map_err(written)?;
        fs::write(directory.join("status"), "").map_err(written)?;
        let apt = Self(directory.to_owned());
        // A list that cannot be had is a warning otherwise.
        output(apt.command("apt-get").args(["-o", "APT::Update::Error-Mode=any", "update"]))?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = |name: &str| self.0.join(name).display().to_string();
        let options = [
            format!("Dir::Etc::SourceList={}", path("sources.list")),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            format!("Dir::State::Lists={}", path("lists")),
            format!("Dir::State::Status={}", path("status")),
            format!("Dir::Cache={}", path("cache")),
            // Lists are for whoever runs this, who may be nobody's neighbour.
            "APT::Sandbox::User=root".to_owned(),
        ];
        for option in options {
            command.args(["-o", &option]);
        }
        let architectures: Vec<_> = KERNELS.iter().map(|(.., it)| *it).collect();
        command.args(["-o", &format!("APT::Architectures={}", architectures.join(","))]);
        command.env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    /// Puts the newest kernel of a package into a file. Returns the package's name.
    fn kernel(&self, package: &str, architecture: &str, file: &Path) -> Result<String, String> {
        let asked = format!("{package}:{architecture}");
        let depends = output(self.command("apt-cache").args(["depends", "--important", &asked]))?;
        let lines = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        let name = lines.map(|name| name.split(':').next().unwrap_or_default());
        let name = name.into_iter().next().ok_or_else(|| format!("{asked} depends on nothing"))?;
        let packages = self.0.join("packages");
        let download = format!("{name}:{architecture}");
        output(self.command("apt-get").args(["download", &download]).current_dir(&packages))?;
        let entries = fs::read_dir(&packages).map_err(|error| error.to_string())?;
        let fetched = entries.flatten().map(|entry| entry.path()).find(|path| {
            path.file_name().is_some_and(|it| it.to_string_lossy().starts_with(&format!("{name}_")))
        });
        let fetched = fetched.ok_or_else(|| format!("{download} was not fetched"))?;
        let image = format!("./boot/vmlinuz-{}", name.trim_start_matches("linux-image-"));
        // By a name of its own first: whoever looks never sees half a kernel.
        let draft = file.with_extension("draft");
        let script = "dpkg-deb --fsys-tarfile \"$0\" | tar -xO \"$1\" > \"$2\" && test -s \"$2\"";
        output(Command::new("sh").args(["-c", script]).arg(&fetched).arg(image).arg(&draft))?;
        fs::rename(&draft, file).map_err(|error| format!("{}: {error}", file.display()))?;
        // It is large, and only the kernel is wanted of it.
        fs::remove_file(&fetched).map_err(|error| format!("{}: {error}", fetched.display()))?;
        Ok(name.to_owned())
    }
}

/// Runs a program to its end, which must be a good one, and returns what it wrote.
fn output(command: &mut Command) -> Result<String, String> {
    let words = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{words}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{words}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}
