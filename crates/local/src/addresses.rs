//! Loopback addresses of a local cluster. Several clusters on one machine must use different addresses.

use std::{
    net::{Ipv4Addr, TcpListener},
    ops::RangeInclusive,
};

/// The most clusters on one machine.
const MAX_CLUSTERS: u8 = 32;

/// A socket on this port of a block's last address marks the block as taken. The kernel closes it with the process.
const CLAIM_PORT: u16 = 47064;

/// A block of addresses that no other cluster uses while this value lives.
#[derive(Debug)]
pub(crate) struct Block {
    index: u8,
    _claim: TcpListener,
}

// === impl Block ===

impl Block {
    /// Claims the first free block. Returns `None` if all are taken.
    pub(crate) fn claim() -> Option<Self> {
        // All of 127.0.0.0/8 is loopback. Second octets from 64 to 95 are for pods and Gateways, from 96 to 127 for Services.
        (0..MAX_CLUSTERS).find_map(|index| {
            let claim = TcpListener::bind((Ipv4Addr::new(127, 64 + index, 255, 254), CLAIM_PORT)).ok()?;
            Some(Self { index, _claim: claim })
        })
    }

    /// Returns the addresses of pods.
    pub(crate) fn pods(&self) -> RangeInclusive<Ipv4Addr> {
        let octet = 64 + self.index;
        Ipv4Addr::new(127, octet, 0, 1)..=Ipv4Addr::new(127, octet, 254, 255)
    }

    /// Returns the addresses of Gateways.
    pub(crate) fn gateways(&self) -> RangeInclusive<Ipv4Addr> {
        let octet = 64 + self.index;
        Ipv4Addr::new(127, octet, 255, 1)..=Ipv4Addr::new(127, octet, 255, 253)
    }

    /// Returns the range of cluster IPs of Services: first address and prefix length.
    pub(crate) fn services(&self) -> (Ipv4Addr, u8) {
        (Ipv4Addr::new(127, 64 + MAX_CLUSTERS + self.index, 0, 0), 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_worlds_get_different_addresses_and_a_block_comes_back() {
        let (first, second) = (Block::claim().unwrap(), Block::claim().unwrap());
        assert_ne!(first.pods(), second.pods());
        assert_ne!(first.services(), second.services());
        let index = first.index;
        drop(first);
        assert!(Block::claim().unwrap().index <= index);
    }
}
