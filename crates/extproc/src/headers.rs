//! Headers as on the wire: byte strings, in order, without copies.

use bytes::Bytes;

/// One header field. The name is unchanged (proxies send lower case).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The field name; pseudo-headers keep their colon (`:path`).
    pub name: Bytes,
    /// The field value, any bytes.
    pub value: Bytes,
}

impl Header {
    /// Creates a header.
    pub fn new(name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self { name: name.into(), value: value.into() }
    }

    /// Returns the value as text, or `None` if it is not UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.value).ok()
    }
}

/// The header fields of a message, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<Header>);

impl Headers {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends a field, and keeps fields with the same name.
    pub fn push(&mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.0.push(Header::new(name, value));
    }

    /// Returns the value of the first field with this name (case-insensitive), or `None` if there is none or it is not
    /// UTF-8.
    pub fn get(&self, name: &str) -> Option<&str> {
        find(&self.0, name).and_then(Header::text)
    }

    /// Iterates over the fields in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Header> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Headers {
    type Item = &'a Header;
    type IntoIter = std::slice::Iter<'a, Header>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl FromIterator<Header> for Headers {
    fn from_iter<T: IntoIterator<Item = Header>>(iter: T) -> Self {
        Self(iter.into_iter().collect())
    }
}

/// The header changes that a processor requests for a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderChanges {
    /// Fields to set: each replaces all fields of its name. A proxy ignores changes to `host` and to
    /// pseudo-headers.
    pub set: Vec<Header>,
    /// Names of fields to remove.
    pub remove: Vec<String>,
    /// Whether the proxy must choose the route (and so the cluster) again.
    pub clear_route_cache: bool,
}

impl HeaderChanges {
    /// Returns the value to set for this name (case-insensitive), or `None` if there is none or it is not UTF-8.
    pub fn get(&self, name: &str) -> Option<&str> {
        find(&self.set, name).and_then(Header::text)
    }

    /// Returns the memory of the fields.
    pub(crate) fn size(&self) -> usize {
        let set = self.set.iter().map(|header| size_of::<Header>() + header.name.len() + header.value.len());
        let remove = self.remove.iter().map(|name| size_of::<String>() + name.len());
        set.chain(remove).sum()
    }
}

fn find<'a>(headers: &'a [Header], name: &str) -> Option<&'a Header> {
    headers.iter().find(|header| header.name.eq_ignore_ascii_case(name.as_bytes()))
}
