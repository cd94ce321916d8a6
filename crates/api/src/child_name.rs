//! Names of children, shortened so that they always fit a DNS label.

use md5::{Digest, Md5};

/// The longest name of a child: that of a DNS label.
const MAX_NAME_LENGTH: usize = 63;
/// Length of an MD5 hash in hexadecimal.
const HASH: usize = 32;
/// The length that remains beside the hash.
const HEAD: usize = MAX_NAME_LENGTH - HASH;

/// Returns the name of a child of `parent` with this `suffix`. If both together do not fit a DNS label (63 bytes), the name
/// is shortened, with an MD5 hash of the part that was cut.
pub fn child_name(parent: &str, suffix: &str) -> String {
    if parent.len() + suffix.len() <= MAX_NAME_LENGTH {
        return format!("{parent}{suffix}");
    }
    if suffix.len() < HEAD {
        let head = &parent[..parent.floor_char_boundary(HEAD - suffix.len())];
        return format!("{head}{}{suffix}", hash(parent));
    }
    let mut name =
        format!("{}{}", &parent[..parent.floor_char_boundary(HEAD)], hash(&format!("{parent}{suffix}")));
    let room = MAX_NAME_LENGTH - name.len();
    name.push_str(&suffix[..suffix.floor_char_boundary(room)]);
    // Where the suffix was cut, there may be a dash, with which no DNS label ends.
    let end = name.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).len();
    name.truncate(end);
    name
}

fn hash(text: &str) -> String {
    format!("{:x}", Md5::digest(text.as_bytes()))
}
