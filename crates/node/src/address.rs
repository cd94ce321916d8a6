//! Loopback addresses for pods.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use parking_lot::Mutex;

/// An inclusive range of loopback addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    first: u32,
    last: u32,
}

impl AddressRange {
    /// Creates a range from `first` to `last`. Returns `None` if they are not loopback addresses, or if the range is empty.
    pub fn new(first: Ipv4Addr, last: Ipv4Addr) -> Option<Self> {
        (first.is_loopback() && last.is_loopback() && first <= last)
            .then_some(Self { first: first.to_bits(), last: last.to_bits() })
    }
}

impl Default for AddressRange {
    /// 127.64.0.1 to 127.64.255.254.
    fn default() -> Self {
        Self {
            first: Ipv4Addr::new(127, 64, 0, 1).to_bits(),
            last: Ipv4Addr::new(127, 64, 255, 254).to_bits(),
        }
    }
}

/// Leases the addresses of a range.
///
/// The pool goes round the range instead of reusing the lowest free address. So a client that still has the address of a
/// deleted pod gets a refused connection, and not another pod.
#[derive(Debug, Clone)]
pub(crate) struct AddressPool {
    range: AddressRange,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    next: u32,
    used: BTreeSet<u32>,
}

impl AddressPool {
    pub(crate) fn new(range: AddressRange) -> Self {
        Self { range, state: Arc::new(Mutex::new(State { next: range.first, used: BTreeSet::new() })) }
    }

    /// Leases a free address. Dropping the lease returns the address to the pool. Returns `None` if all addresses are in
    /// use.
    pub(crate) fn lease(&self) -> Option<AddressLease> {
        let mut state = self.state.lock();
        let size = self.range.last - self.range.first + 1;
        let free = (0..size)
            .map(|offset| self.range.first + (state.next - self.range.first + offset) % size)
            .find(|bits| !state.used.contains(bits) && !ends_a_network(*bits))?;
        state.used.insert(free);
        state.next = if free == self.range.last { self.range.first } else { free + 1 };
        Some(AddressLease { bits: free, pool: self.clone() })
    }
}

/// Whether an address is x.x.x.0 or x.x.x.255. Such addresses work on loopback, but look like mistakes to people and to some
/// programs.
fn ends_a_network(bits: u32) -> bool {
    matches!(bits & 0xff, 0 | 0xff)
}

/// An address in use.
#[derive(Debug)]
pub(crate) struct AddressLease {
    bits: u32,
    pool: AddressPool,
}

impl AddressLease {
    pub(crate) fn ip(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.bits)
    }
}

impl Drop for AddressLease {
    fn drop(&mut self) {
        self.pool.state.lock().used.remove(&self.bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(first: [u8; 4], last: [u8; 4]) -> AddressPool {
        AddressPool::new(AddressRange::new(first.into(), last.into()).unwrap())
    }

    #[test]
    fn addresses_are_distinct_and_return_when_dropped() {
        let pool = pool([127, 1, 0, 1], [127, 1, 0, 2]);
        let first = pool.lease().unwrap();
        let second = pool.lease().unwrap();
        assert_ne!(first.ip(), second.ip());
        assert!(pool.lease().is_none(), "two addresses, both in use");
        let freed = first.ip();
        drop(first);
        assert_eq!(pool.lease().unwrap().ip(), freed);
    }

    #[test]
    fn a_freed_address_is_not_handed_out_next_while_others_are_free() {
        let pool = pool([127, 1, 0, 1], [127, 1, 0, 9]);
        let freed = pool.lease().unwrap().ip();
        assert_ne!(pool.lease().unwrap().ip(), freed);
    }

    #[test]
    fn network_ends_are_skipped() {
        let pool = pool([127, 1, 0, 254], [127, 1, 1, 1]);
        let leases: Vec<_> = std::iter::from_fn(|| pool.lease()).collect();
        let ips: Vec<_> = leases.iter().map(|lease| lease.ip().octets()).collect();
        assert_eq!(ips, [[127, 1, 0, 254], [127, 1, 1, 1]]);
    }

    #[test]
    fn a_range_outside_loopback_is_refused() {
        assert!(AddressRange::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into()).is_none());
        assert!(AddressRange::new([127, 0, 0, 2].into(), [127, 0, 0, 1].into()).is_none());
    }
}
