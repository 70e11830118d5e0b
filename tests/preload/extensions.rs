//! H32: glibc's extensions, as their callers use them.

use crate::support::child::{Child, Ended};
use crate::support::compile;

fn extensions(case: &str) -> Ended {
    Child::new(compile::c("extensions.c")).arg(case).freehold().run().succeeded()
}

#[test]
fn mallinfo_follows_what_the_program_has() {
    extensions("mallinfo_follows");
}

#[test]
fn mallinfo_cuts_what_does_not_fit_an_int() {
    extensions("mallinfo_of_more_than_2_gib");
}

#[test]
fn malloc_info_writes_a_document_whose_elements_are_closed() {
    let document = extensions("malloc_info_on_stdout").out();
    assert!(document.starts_with("<malloc version=\"1\">\n"), "{document}");
    assert!(document.ends_with("</malloc>\n"), "{document}");
    let mut open = Vec::new();
    for tag in document.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("tags are closed");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{document}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{document}");
}

#[test]
fn malloc_stats_names_the_allocator_on_standard_error() {
    let said = extensions("malloc_stats_on_stderr").err();
    assert!(said.starts_with("Freehold "), "{said}");
    let in_use = said.lines().find_map(|line| line.strip_prefix("in use")).expect("a line");
    let bytes = in_use.trim().trim_end_matches(" bytes").parse::<u64>().expect("a number");
    assert!((1_000_000..10_000_000).contains(&bytes), "1000 blocks of 1000 bytes: {said}");
}

#[test]
fn mallopt_accepts_the_known_parameters_and_refuses_others() {
    extensions("mallopt_knows_its_parameters");
}

#[test]
fn malloc_trim_lowers_the_resident_memory_and_spares_what_is_in_use() {
    extensions("trim_lowers_rss");
}
