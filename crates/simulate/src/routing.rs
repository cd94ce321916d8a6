//! Which pool gets a request: the one that serves the model or adapter that the request names.

use std::collections::{BTreeMap, BTreeSet};

use crate::trace::TraceRequest;

/// The most names of models that no pool serves. Requests for further ones count under an empty name.
const MAX_UNKNOWN_NAMES: usize = 32;

/// The pools by the names of models that they serve.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelRoutes(BTreeMap<String, usize>);

/// The requests of a trace by their pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoutedRequests {
    /// The number for each pool.
    pub pools: Vec<u64>,
    /// The number for each model that no pool serves.
    pub unknown: BTreeMap<String, u64>,
}

// === impl ModelRoutes ===

impl ModelRoutes {
    /// Creates the routes to pools, each with the names of the models and adapters that it serves.
    ///
    /// # Errors
    /// A name that two pools serve, and the numbers of the pools.
    pub fn new(pools: &[BTreeSet<String>]) -> Result<Self, (String, usize, usize)> {
        let mut routes = BTreeMap::new();
        for (pool, names) in pools.iter().enumerate() {
            for name in names {
                if let Some(other) = routes.insert(name.clone(), pool) {
                    return Err((name.clone(), other, pool));
                }
            }
        }
        Ok(Self(routes))
    }

    /// Returns the pool of a request. As in a gateway, the name of an adapter stands for a model.
    pub fn pool(&self, request: &TraceRequest) -> Option<usize> {
        self.0.get(request.asks_for()).copied()
    }

    /// Counts the requests of a trace by their pool.
    pub fn count(&self, pools: usize, requests: impl Iterator<Item = TraceRequest>) -> RoutedRequests {
        let mut routed = RoutedRequests { pools: vec![0; pools], unknown: BTreeMap::new() };
        for request in requests {
            if let Some(pool) = self.pool(&request) {
                routed.pools[pool] += 1;
                continue;
            }
            let name = request.asks_for();
            let is_listed = routed.unknown.contains_key(name) || routed.unknown.len() < MAX_UNKNOWN_NAMES;
            *routed.unknown.entry(if is_listed { name } else { "" }.to_owned()).or_default() += 1;
        }
        routed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::trace::TracePrompt;

    fn names(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn requests_go_to_the_pool_of_their_model_or_adapter_and_others_are_counted_by_name() {
        let routes = ModelRoutes::new(&[names(&["chat", "poet"]), names(&["code"])]).unwrap();
        let request = |model: &str, adapter: Option<&str>| TraceRequest {
            model: model.to_owned(),
            adapter: adapter.map(str::to_owned),
            ..TraceRequest::new(Duration::ZERO, TracePrompt::unshared(1), 1)
        };
        let requests = [
            request("chat", None),
            request("code", Some("poet")),
            request("code", None),
            request("chat", Some("sql")),
            request("", None),
            request("", None),
        ];
        let counts = routes.count(2, requests.into_iter());
        let unknown = [(String::new(), 2), ("sql".to_owned(), 1)].into();
        assert_eq!(counts, RoutedRequests { pools: vec![2, 1], unknown });
        let many = routes.count(2, (0..100).map(|number| request(&format!("m{number}"), None)));
        assert_eq!((many.unknown.len(), many.unknown[""]), (MAX_UNKNOWN_NAMES + 1, 68));
    }

    #[test]
    fn a_name_that_two_pools_serve_is_refused() {
        let refused = ModelRoutes::new(&[names(&["a", "m"]), names(&["m"])]);
        assert_eq!(refused, Err(("m".to_owned(), 0, 1)));
    }
}
