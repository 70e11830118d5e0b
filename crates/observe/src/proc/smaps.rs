//! `/proc/PID/smaps`: what is resident of each area of a process' memory.

use std::ops::Range;

/// An area of memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Area {
    /// Where it is.
    pub(crate) addresses: Range<u64>,
    /// Whether code in it can run.
    pub(crate) is_executable: bool,
    /// Whether others see what is written to it.
    pub(crate) is_shared: bool,
    /// The file, or the kernel's name for it in brackets; empty for none.
    pub(crate) name: String,
    /// Bytes that are in memory.
    pub(crate) resident: u64,
    /// Those of them that are of no file.
    pub(crate) anonymous: u64,
    /// Those of them in huge pages.
    pub(crate) huge: u64,
    /// Those of them that are given back when the system needs memory.
    pub(crate) lazily_free: u64,
    /// Bytes that were written to swap.
    pub(crate) swapped: u64,
}

/// Reads the text of the file.
pub(crate) fn parse(text: &str) -> Vec<Area> {
    let mut areas: Vec<Area> = Vec::new();
    for line in text.lines() {
        if let Some(area) = head(line) {
            areas.push(area);
        } else if let Some(area) = areas.last_mut() {
            add(area, line);
        }
    }
    areas
}

/// The first line of an area: addresses, permissions, offset, device, inode, name.
fn head(line: &str) -> Option<Area> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(Area {
        addresses: number(start)?..number(end)?,
        is_executable: permissions.contains('x'),
        is_shared: permissions.ends_with('s'),
        name: fields.nth(3).unwrap_or_default().trim().to_owned(),
        ..Area::default()
    })
}

/// One of the other lines: a name, and kilobytes.
fn add(area: &mut Area, line: &str) {
    let Some((name, rest)) = line.split_once(':') else { return };
    let kilobytes = rest.trim().strip_suffix(" kB").and_then(|number| number.parse::<u64>().ok());
    let bytes = kilobytes.unwrap_or_default() * 1024;
    match name {
        "Rss" => area.resident = bytes,
        "Anonymous" => area.anonymous = bytes,
        "AnonHugePages" => area.huge = bytes,
        "LazyFree" => area.lazily_free = bytes,
        "Swap" => area.swapped = bytes,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_have_their_numbers_and_names() {
        let text = "5500-5600 rw-p 00000000 00:00 0                          [heap]\n\
                    Size:               1024 kB\nRss:                 512 kB\n\
                    Anonymous:           512 kB\nAnonHugePages:       256 kB\nSwap: 8 kB\n\
                    VmFlags: rd wr mr mw\n\
                    7f00-7f10 r-xs 00000000 fe:00 12    /opt/my lib.so (deleted)\n\
                    Rss:                   4 kB\nLazyFree: 0 kB\n";
        let areas = parse(text);
        assert_eq!(areas.len(), 2);
        let heap = &areas[0];
        assert_eq!((heap.name.as_str(), heap.addresses.clone()), ("[heap]", 0x5500..0x5600));
        assert_eq!((heap.resident, heap.anonymous), (512 << 10, 512 << 10));
        assert_eq!((heap.huge, heap.swapped), (256 << 10, 8 << 10));
        let code = &areas[1];
        assert!(code.is_executable && code.is_shared && !heap.is_shared);
        assert_eq!((code.name.as_str(), code.resident), ("/opt/my lib.so (deleted)", 4096));
    }
}
