//! Headers as they travel on the wire: byte strings, in order, without copies.

use bytes::Bytes;

/// One header field. The name is as it was received (proxies send lower case).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The field name; pseudo-headers keep their colon (`:path`).
    pub name: Bytes,
    /// The field value, any bytes.
    pub value: Bytes,
}

impl Header {
    /// A header from anything that is or becomes bytes.
    pub fn new(name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self { name: name.into(), value: value.into() }
    }

    /// The value as text, where it is UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.value).ok()
    }
}

/// The header fields of a message, in the order they were sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<Header>);

impl Headers {
    /// No headers.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a field at the end, keeping fields of the same name.
    pub fn push(&mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.0.push(Header::new(name, value));
    }

    /// The value of the first field of this name (compared without case), if it is UTF-8.
    pub fn get(&self, name: &str) -> Option<&str> {
        find(&self.0, name).and_then(Header::text)
    }

    /// The fields in order.
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

/// What a processor wants changed in the headers (or trailers) of a message.
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
    /// The value to be set under this name (compared without case), if it is UTF-8.
    pub fn get(&self, name: &str) -> Option<&str> {
        find(&self.set, name).and_then(Header::text)
    }
}

fn find<'a>(headers: &'a [Header], name: &str) -> Option<&'a Header> {
    headers.iter().find(|header| header.name.eq_ignore_ascii_case(name.as_bytes()))
}
