//! Which replica of the shared picker picks for a pool. A pure function, so that replicas that see the same pods agree.

use std::hash::Hasher;

use longboat_key::Key;
use xxhash_rust::xxh64::Xxh64;

/// Returns the replica that is to pick for a pool: the one whose name has the highest hash together with the pool's (rendezvous
/// hashing). So a replica that comes or goes moves only its own pools, whose prefix indexes start anew.
pub(super) fn winner<'a>(pool: &Key, ready: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    ready.into_iter().max_by_key(|name| (weight(pool, name), *name))
}

/// The hash of some words. It must not change between versions: two versions run during a roll-out.
pub(super) fn hash(words: &[&str]) -> u64 {
    let mut hasher = Xxh64::new(0);
    for word in words {
        hasher.write(word.as_bytes());
        hasher.write_u8(0);
    }
    hasher.finish()
}

fn weight(pool: &Key, name: &str) -> u64 {
    hash(&[&pool.namespace, &pool.name, name])
}

#[cfg(test)]
mod tests {
    use longboat_key::{Name, Namespace};

    use super::*;

    fn pools() -> Vec<Key> {
        (0..900).map(|number| Key::new(Namespace("ns"), Name(&format!("pool-{number}")))).collect()
    }

    #[test]
    fn a_replica_that_leaves_moves_only_its_own_pools() {
        for pool in pools() {
            let before = winner(&pool, ["a", "b", "c"]);
            let after = winner(&pool, ["c", "a"]);
            if before != Some("b") {
                assert_eq!(after, before, "{pool}");
            }
        }
        assert_eq!(winner(&pools()[0], []), None);
    }

    #[test]
    fn pools_are_spread_over_the_replicas() {
        for name in ["a", "b", "c"] {
            let count = pools().iter().filter(|pool| winner(pool, ["a", "b", "c"]) == Some(name)).count();
            assert!((240..360).contains(&count), "{name} has {count} of 900");
        }
    }
}
