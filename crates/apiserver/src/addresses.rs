//! Cluster IPs and node ports.

use std::{collections::BTreeSet, net::Ipv4Addr};

/// The ports that NodePort services get.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30000..=32767;

/// The cluster IPs and node ports in use. The Service objects are authoritative: an allocation ends when no Service has it
/// any more.
#[derive(Debug)]
pub(crate) struct Addresses {
    first: u32,
    size: u32,
    next: u32,
    used: BTreeSet<u32>,
    next_port: u16,
    ports: BTreeSet<u16>,
}

// === impl Addresses ===

impl Addresses {
    pub(crate) fn new((first, prefix): (Ipv4Addr, u8)) -> Self {
        let prefix = u32::from(prefix.min(30));
        let size = u32::try_from(1_u64 << (32 - prefix)).unwrap_or(u32::MAX);
        Self {
            first: u32::from(first) & !(size - 1),
            size,
            // The first address belongs to the API server's own Service in a cluster. A range may have fewer than ten.
            next: 10.min(size - 2),
            used: BTreeSet::new(),
            next_port: *NODE_PORTS.start(),
            ports: BTreeSet::new(),
        }
    }

    /// Returns the range in CIDR form: `127.96.0.0/16`.
    pub(crate) fn range(&self) -> String {
        format!("{}/{}", Ipv4Addr::from(self.first), self.size.leading_zeros() + 1)
    }

    /// Allocates a free address. Returns `None` if the range is used up.
    pub(crate) fn allocate(&mut self) -> Option<Ipv4Addr> {
        for _ in 0..self.size {
            let offset = self.next;
            self.next = if self.next + 2 >= self.size { 1 } else { self.next + 1 };
            if self.used.insert(offset) {
                return Some(Ipv4Addr::from(self.first + offset));
            }
        }
        None
    }

    /// Takes a given address. Returns `false` if it is taken, and an error if it is outside the range.
    pub(crate) fn take(&mut self, address: Ipv4Addr) -> Result<bool, ()> {
        let offset = u32::from(address).wrapping_sub(self.first);
        if offset == 0 || offset >= self.size - 1 {
            return Err(());
        }
        Ok(self.used.insert(offset))
    }

    /// Frees an address.
    pub(crate) fn free(&mut self, address: Ipv4Addr) {
        self.used.remove(&u32::from(address).wrapping_sub(self.first));
    }

    /// A free node port.
    pub(crate) fn allocate_port(&mut self) -> Option<u16> {
        for _ in NODE_PORTS {
            let port = self.next_port;
            self.next_port = if port >= *NODE_PORTS.end() { *NODE_PORTS.start() } else { port + 1 };
            if self.ports.insert(port) {
                return Some(port);
            }
        }
        None
    }

    /// Whether NodePort services may use this port.
    pub(crate) fn is_node_port(port: u16) -> bool {
        NODE_PORTS.contains(&port)
    }

    /// Takes a given node port. Returns `false` if it is taken.
    pub(crate) fn take_port(&mut self, port: u16) -> bool {
        self.ports.insert(port)
    }

    /// Frees a node port.
    pub(crate) fn free_port(&mut self, port: u16) {
        self.ports.remove(&port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_range_gives_only_its_own_addresses() {
        let mut addresses = Addresses::new((Ipv4Addr::new(127, 96, 0, 0), 30));
        let mut all: Vec<_> = std::iter::from_fn(|| addresses.allocate()).collect();
        all.sort();
        assert_eq!(all, [Ipv4Addr::new(127, 96, 0, 1), Ipv4Addr::new(127, 96, 0, 2)]);
    }

    #[test]
    fn addresses_come_back_after_they_are_freed() {
        let mut addresses = Addresses::new((Ipv4Addr::new(127, 96, 0, 0), 28));
        let mut all = Vec::new();
        while let Some(address) = addresses.allocate() {
            all.push(address);
        }
        assert!(all.len() >= 13, "{all:?}");
        addresses.free(all[3]);
        assert_eq!(addresses.allocate(), Some(all[3]));
        assert_eq!(addresses.range(), "127.96.0.0/28");
    }

    #[test]
    fn addresses_outside_of_the_range_are_refused() {
        let mut addresses = Addresses::new((Ipv4Addr::new(127, 96, 0, 0), 16));
        assert!(addresses.take(Ipv4Addr::new(10, 0, 0, 1)).is_err());
        assert_eq!(addresses.take(Ipv4Addr::new(127, 96, 3, 4)), Ok(true));
        assert_eq!(addresses.take(Ipv4Addr::new(127, 96, 3, 4)), Ok(false));
    }
}
