//! What an archive may contain, whatever its format: the names, links and permissions of members, their number and their size.

use std::io::{self, Read, Write};

use super::problem::Problem;
use crate::{names, remote::Members};

/// Most members of one archive that are wanted: what is known of each is held in memory.
pub(super) const MAX_MEMBERS: usize = 100_000;
/// An archive may grow to this many times its size…
pub(super) const MAX_EXPANSION: u64 = 200;
/// …or this many bytes, whatever the archive's size.
pub(super) const EXPANSION_ALLOWANCE: u64 = 256 << 20;

/// The remaining limits of an archive.
pub(super) struct Budget {
    /// The members that may still come.
    pub(super) members: usize,
    /// The bytes that may still come.
    pub(super) bytes: u64,
    /// The error if there are more bytes.
    pub(super) why: &'static str,
}

// === impl Budget ===

impl Budget {
    pub(super) fn member(&mut self) -> Result<(), Problem> {
        self.members = self
            .members
            .checked_sub(1)
            .ok_or_else(|| format!("more than {MAX_MEMBERS} members would be extracted"))?;
        Ok(())
    }

    pub(super) fn copy(&mut self, from: &mut impl Read, to: &mut impl Write) -> Result<u64, Problem> {
        let size = io::copy(&mut from.take(self.bytes.saturating_add(1)), to)?;
        self.bytes = self.bytes.checked_sub(size).ok_or(self.why)?;
        Ok(size)
    }
}

/// Returns the member's path. Returns `None` if the member is not below the wanted folder.
pub(super) fn wanted(path: &str, members: &Members) -> Result<Option<String>, Problem> {
    let plain: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if plain.contains(&"..") {
        return Err(format!("`{}` leads out of the folder", names::shown(path)).into());
    }
    let plain = match (&members.below, plain.split_first()) {
        (None, _) => &plain[..],
        (Some(below), Some((first, rest))) if first == below => rest,
        (Some(_), _) => return Ok(None),
    };
    let path = plain.join("/");
    if path.is_empty() {
        return Ok(None);
    }
    match names::check(&path) {
        Ok(()) => Ok(Some(path)),
        Err(error) => Err(error.to_string().into()),
    }
}

/// Whether a relative link stays in the folder, judged by its text. An absolute link does not. The folders above a link are
/// real folders. But a path component that the link goes down into may be another link, and then the target of a following `..`
/// is unknown. So such links are refused.
pub(super) fn stays_inside(path: &str, to: &str) -> bool {
    let mut depth = path.matches('/').count();
    let mut goes_down = false;
    if to.is_empty() || to.starts_with('/') || to.contains('\0') {
        return false;
    }
    for part in to.split('/') {
        match part {
            "" | "." => {}
            ".." if goes_down => return false,
            ".." => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return false,
            },
            _ => goes_down = true,
        }
    }
    true
}

/// The permissions that a member may have: no set-id bits, no write access for others, and always read and write access for the
/// owner.
pub(super) fn masked(mode: u32) -> u32 {
    let mode = (mode & 0o755) | 0o600;
    if mode & 0o100 == 0 { mode & !0o011 } else { mode }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends() {
        let mut left = Budget { members: 1, bytes: 3, why: "w" };
        assert!(left.copy(&mut &b"abc"[..], &mut io::sink()).is_ok());
        assert!(left.copy(&mut &b"d"[..], &mut io::sink()).is_err());
        assert!(left.member().is_ok() && left.member().is_err());
    }

    #[test]
    fn links_stay_inside_whatever_they_lead_through() {
        for (path, to, stays) in [
            ("a", "b", true),
            ("a/b", "../c", true),
            ("a/b", "../../c", false),
            ("a/b", "./../c/d", true),
            ("a/b", "c/../d", false),
            ("a", "/a", false),
            ("a", "", false),
        ] {
            assert_eq!(stays_inside(path, to), stays, "{path} -> {to}");
        }
    }

    #[test]
    fn permissions_are_masked() {
        for (mode, kept) in [(0o4777, 0o755), (0o400, 0o600), (0o644, 0o644), (0o611, 0o600)] {
            assert_eq!(masked(mode), kept, "{mode:o}");
        }
    }
}
