//! Slack in huge pages: what they keep in memory although nothing was ever written to it. It must
//! not know whose memory it is.

use std::fs::File;

use freehold_model::HugeSlack;

use crate::proc::pagemap::{self, PAGE, present_pages};
use crate::proc::smaps::Area;
use crate::reading::copy;

const HUGE: u64 = 2 << 20;

/// Huge pages that are looked at: the others are taken to be like them.
const MOST: usize = 32;

/// The slack of the huge pages in these areas of a process; nothing where there are none, or they
/// may not be read.
pub(crate) fn slack(pid: u32, areas: &[Area]) -> Option<HugeSlack> {
    let pagemap = pagemap::open(pid)?;
    let huge = areas.iter().filter(|area| area.huge > 0);
    let whole: Vec<u64> = huge.flat_map(|area| whole_pages(&pagemap, area)).collect();
    let step = whole.len().div_ceil(MOST).max(1);
    let mut bytes = vec![0; HUGE as usize];
    let mut slack = HugeSlack::default();
    for &page in whole.iter().step_by(step) {
        // Only what was copied in one piece is of one moment.
        if copy(pid, page, &mut bytes) == bytes.len() {
            slack.examined_bytes += HUGE;
            slack.unused_bytes += unused(&bytes);
        }
    }
    (slack.examined_bytes > 0).then_some(slack)
}

/// The addresses of an area where a huge page can be that is there as a whole.
fn whole_pages(pagemap: &File, area: &Area) -> Vec<u64> {
    let first = area.addresses.start.next_multiple_of(HUGE);
    let candidates = (first..area.addresses.end).step_by(HUGE as usize);
    let within = candidates.take_while(|page| page + HUGE <= area.addresses.end);
    within.filter(|&page| is_whole(pagemap, page)).collect()
}

/// Whether everything of a huge page is there. What is not must not be read, which would put it
/// there.
fn is_whole(pagemap: &File, page: u64) -> bool {
    present_pages(pagemap, &(page..page + HUGE)) == Some(HUGE / PAGE)
}

/// Bytes of pages that hold nothing but zeros.
fn unused(bytes: &[u8]) -> u64 {
    let pages = bytes.chunks(PAGE as usize);
    pages.filter(|page| page.iter().all(|&byte| byte == 0)).count() as u64 * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_without_anything_in_them_are_slack() {
        let mut bytes = vec![0; 4 * PAGE as usize];
        assert_eq!(unused(&bytes), 4 * PAGE);
        bytes[PAGE as usize] = 1;
        bytes[4 * PAGE as usize - 1] = 1;
        assert_eq!(unused(&bytes), 2 * PAGE);
    }
}
