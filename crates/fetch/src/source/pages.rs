//! Detects listings that never end.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
};

use crate::failure::Failure;

/// The most files in one listing, wanted or not.
const MAX_FILES: usize = 1_000_000;
/// The most pages without files. Stores may send some, for example for deleted objects.
const MAX_EMPTY_PAGES: usize = 1000;

/// The pages of a listing so far.
#[derive(Default)]
pub(super) struct Pages {
    files: usize,
    empty: usize,
    hasher: RandomState,
    /// Hashes of the page tokens, because tokens may be long.
    named: HashSet<u64>,
}

// === impl Pages ===

impl Pages {
    /// Counts a page with its number of files and the token of the next page. Refuses a listing that does not end.
    pub(super) fn turn(&mut self, server: &str, files: usize, next: Option<&str>) -> Result<(), Failure> {
        self.files += files;
        if self.files > MAX_FILES {
            return Err(Failure::last(format!(
                "{server} lists more than {MAX_FILES} files; use an address that has only the files of a \
                 model"
            )));
        }
        let Some(next) = next else { return Ok(()) };
        self.empty += usize::from(files == 0);
        let why = if !self.named.insert(self.hasher.hash_one(next)) {
            "a page refers to an earlier page as its next page".to_owned()
        } else if self.empty > MAX_EMPTY_PAGES {
            format!("more than {MAX_EMPTY_PAGES} pages are empty, and each has a next page")
        } else {
            return Ok(());
        };
        Err(Failure::last(format!(
            "the list of files of {server} does not end: {why}; check that this is the address of the \
             store itself, and tell the operator of the server"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends() {
        let mut pages = Pages::default();
        for page in 0..MAX_EMPTY_PAGES {
            pages.turn("s", 0, Some(&page.to_string())).unwrap();
        }
        pages.turn("s", 1, Some("more")).unwrap();
        pages.turn("s", 0, None).unwrap();
        assert!(pages.turn("s", 0, Some("other")).unwrap_err().why.contains("are empty"));

        let mut pages = Pages::default();
        pages.turn("s", 1, Some("a")).unwrap();
        pages.turn("s", 1, Some("b")).unwrap();
        assert!(pages.turn("s", 1, Some("a")).unwrap_err().why.contains("earlier page"));

        let mut pages = Pages::default();
        pages.turn("s", MAX_FILES, Some("a")).unwrap();
        assert!(pages.turn("s", 1, None).unwrap_err().why.contains("more than 1000000 files"));
    }
}
