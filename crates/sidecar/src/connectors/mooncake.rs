//! Connector `mooncake`: the decoder is told which engine computes the prompt, and its address. The prefiller's bootstrap
//! port lists its engines.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Uri, uri::Authority};
use longboat_tls::chain;
use parking_lot::Mutex;
use rand::seq::IndexedRandom;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::plan::{Part, Plan, SplitRequest, TRANSFER};
use crate::{
    api::{self, Api},
    body::{full, read},
    object::Object,
    target::Target,
    upstream::Upstream,
};

/// How long a prefiller may take to list its engines.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest list of engines that is read.
const MAX_LIST_BYTES: usize = 1 << 20;

/// How long a list stays in the cache. A restarted engine has another name.
const CACHE_TTL: Duration = Duration::from_secs(10);

/// The most prefillers whose lists are cached.
const MAX_KNOWN: usize = 1024;

/// The connector.
pub(crate) struct Mooncake {
    bootstrap_port: u16,
    /// The client for bootstrap ports, which use plain HTTP.
    upstream: Upstream,
    lists: Lists,
}

/// An engine of a prefiller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Engine {
    rank: u32,
    id: String,
}

/// A cache of the engines of prefillers.
#[derive(Debug, Clone, Default)]
struct Lists(Arc<Mutex<HashMap<Authority, List>>>);

/// The engines of one prefiller.
#[derive(Debug)]
struct List {
    since: Instant,
    engines: Vec<Engine>,
}

// === impl Mooncake ===

impl Mooncake {
    pub(crate) fn new(bootstrap_port: u16, upstream: Upstream) -> Self {
        Self { bootstrap_port, upstream, lists: Lists::default() }
    }

    /// Requests the prefiller's engines, and divides the request.
    ///
    /// # Errors
    /// A message if the prefiller does not list its engines.
    pub(crate) async fn plan<'a>(&self, ask: SplitRequest<'a>) -> Result<Plan<'a>, String> {
        let host = ask.prefiller.authority().host();
        let bootstrap = format!("{host}:{}", self.bootstrap_port);
        let engines = self.engines(ask.prefiller, &bootstrap).await.map_err(|why| {
            format!("bootstrap endpoint {bootstrap} does not list the engines of the prefill pod: {why}")
        })?;
        // A random engine is chosen, to spread the load.
        let engine = engines.choose(&mut rand::rng()).ok_or("its list is empty")?;
        let (prefill, decode) = parts(ask, &format!("http://{bootstrap}"), engine);
        let (lists, prefiller) = (self.lists.clone(), ask.prefiller.authority().clone());
        let failed = Box::new(move || lists.forget(&prefiller));
        Ok(Plan::AtOnce { prefill, decode, failed: Some(failed) })
    }

    async fn engines(&self, prefiller: &Target, bootstrap: &str) -> Result<Vec<Engine>, String> {
        if let Some(engines) = self.lists.get(prefiller.authority()) {
            return Ok(engines);
        }
        let asking = tokio::time::timeout(LIST_TIMEOUT, self.query(bootstrap));
        let engines =
            asking.await.map_err(|_| format!("no answer within {} s", LIST_TIMEOUT.as_secs()))??;
        self.lists.put(prefiller.authority(), engines.clone());
        Ok(engines)
    }

    async fn query(&self, bootstrap: &str) -> Result<Vec<Engine>, String> {
        let authority: Authority = bootstrap.parse().map_err(|_| "no address".to_owned())?;
        let mut request = Request::new(full(Bytes::new()));
        *request.uri_mut() = Uri::from_static("/query");
        let answer = self.upstream.send(&authority, request).await.map_err(|error| chain(&error))?;
        if !answer.status().is_success() {
            return Err(format!("it answers {}", answer.status()));
        }
        let body = read(answer.into_body(), MAX_LIST_BYTES).await.map_err(|error| chain(&error))?;
        engines(&body)
    }
}

impl fmt::Debug for Mooncake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mooncake").field("bootstrap_port", &self.bootstrap_port).finish_non_exhaustive()
    }
}

/// Reads a list of engines by rank. Skips entries without a name.
pub(crate) fn engines(list: &[u8]) -> Result<Vec<Engine>, String> {
    #[derive(Deserialize)]
    struct Entry {
        #[serde(default)]
        engine_id: serde_json::Value,
    }
    let list: BTreeMap<String, Entry> =
        serde_json::from_slice(list).map_err(|error| format!("its response is not a list: {error}"))?;
    // The keys of the response are the ranks.
    let engine = |(rank, entry): (String, Entry)| {
        Some(Engine { rank: rank.parse().ok()?, id: entry.engine_id.as_str()?.to_owned() })
    };
    let engines: Vec<Engine> = list.into_iter().filter_map(engine).collect();
    if engines.is_empty() { Err("its list has no engine_id".into()) } else { Ok(engines) }
}

/// Builds the parts for the prefiller and the decoder. The prefill is limited by `max_tokens` for all APIs, because the
/// engines of this connector read only this field.
pub(crate) fn parts(ask: SplitRequest<'_>, bootstrap: &str, engine: &Engine) -> (Part, Part) {
    let transfer = format!("xfer-{}", ask.id);
    let mut prefill = ask.request.clone();
    prefill.set_value(
        TRANSFER,
        &json!({ "do_remote_decode": true, "do_remote_prefill": false, "transfer_id": transfer }),
    );
    Api::Completions.at_most_one_token(&mut prefill);
    api::no_stream(&mut prefill);
    let mut decode: Object<'_> = ask.request.clone();
    decode.set_value(
        TRANSFER,
        &json!({
            "do_remote_decode": false,
            "do_remote_prefill": true,
            "transfer_id": transfer,
            "remote_bootstrap_addr": bootstrap,
            "remote_engine_id": engine.id,
        }),
    );
    (Part { rank: Some(engine.rank), ..Part::from(&prefill) }, Part::from(&decode))
}

// === impl Lists ===

impl Lists {
    fn get(&self, prefiller: &Authority) -> Option<Vec<Engine>> {
        let lists = self.0.lock();
        lists.get(prefiller).filter(|list| list.is_fresh()).map(|list| list.engines.clone())
    }

    fn put(&self, prefiller: &Authority, engines: Vec<Engine>) {
        let mut lists = self.0.lock();
        if lists.len() >= MAX_KNOWN {
            lists.retain(|_, list| list.is_fresh());
        }
        // Full of fresh lists: the next request asks the prefiller again.
        if lists.len() < MAX_KNOWN {
            lists.insert(prefiller.clone(), List { since: Instant::now(), engines });
        }
    }

    fn forget(&self, prefiller: &Authority) {
        self.0.lock().remove(prefiller);
    }
}

// === impl List ===

impl List {
    fn is_fresh(&self) -> bool {
        self.since.elapsed() < CACHE_TTL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_engines_by_rank_or_says_what_is_wrong() {
        let listed = engines(br#"{"3":{"engine_id":"c","worker_addr":"x"},"1":{"engine_id":5},"x":{}}"#);
        assert_eq!(listed.unwrap(), [Engine { rank: 3, id: "c".into() }]);
        for list in ["{}", "{", "[]", r#"{"0":{"engine_id":5}}"#, r#"{"0":1}"#] {
            assert!(engines(list.as_bytes()).is_err(), "{list}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_believed_for_a_while_or_until_a_prefill_fails() {
        let lists = Lists::default();
        let prefiller = Authority::from_static("a:1");
        let list = vec![Engine { rank: 0, id: "a".into() }];
        lists.put(&prefiller, list.clone());
        assert_eq!(lists.get(&prefiller), Some(list.clone()));
        tokio::time::advance(CACHE_TTL).await;
        assert_eq!(lists.get(&prefiller), None);
        lists.put(&prefiller, list);
        lists.forget(&prefiller);
        assert_eq!(lists.get(&prefiller), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_lists_are_kept_than_there_is_room_for() {
        let lists = Lists::default();
        for number in 0..2 * MAX_KNOWN {
            lists.put(&format!("a{number}:1").parse().unwrap(), Vec::new());
        }
        assert_eq!(lists.0.lock().len(), MAX_KNOWN);
        tokio::time::advance(CACHE_TTL).await;
        let late = Authority::from_static("late:1");
        lists.put(&late, Vec::new());
        assert!(lists.get(&late).is_some());
    }
}
