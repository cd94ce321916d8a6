//! Loopback addresses for pods.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;

/// Leases the addresses of a range.
///
/// The pool goes round the range instead of reusing the lowest free address. So a client that still has the address of a
/// deleted pod gets a refused connection, and not another pod.
#[derive(Debug, Clone)]
pub(crate) struct AddressPool {
    range: RangeInclusive<u32>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    next: u32,
    used: BTreeSet<u32>,
}

impl AddressPool {
    pub(crate) fn new(range: &RangeInclusive<Ipv4Addr>) -> Self {
        let range = range.start().to_bits()..=range.end().to_bits();
        let state = State { next: *range.start(), used: BTreeSet::new() };
        Self { range, state: Arc::new(Mutex::new(state)) }
    }

    /// Leases a free address. Dropping the lease returns the address to the pool. Returns `None` if all addresses are in
    /// use.
    pub(crate) fn lease(&self) -> Option<AddressLease> {
        let mut state = self.state.lock();
        let later = state.next..=*self.range.end();
        let free = later
            .chain(*self.range.start()..state.next)
            .find(|bits| !state.used.contains(bits) && !ends_a_network(*bits))?;
        state.used.insert(free);
        state.next = if free == *self.range.end() { *self.range.start() } else { free + 1 };
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
        AddressPool::new(&(first.into()..=last.into()))
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
}
