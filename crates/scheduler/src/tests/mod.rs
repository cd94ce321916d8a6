//! Configurations, picks from them, and the pools and requests that all tests share.

mod any_pool;
mod config;
mod data_layer;
mod encoder_cache;
mod handlers;
mod herding;
mod latency;
mod observed_latency;
mod p2p;
mod pairing;
mod picks;
mod plugins;
mod policies;
mod precise;
mod published;
mod sessions;
mod versions;

use std::{collections::BTreeMap, sync::Arc};

use rand::{SeedableRng, rngs::StdRng};

use crate::{
    ConfigError, Decision, Endpoint, HeaderLookup, Metrics, NoHeaders, Options, Prompt, Request,
    ScheduleError, Scheduler, Slot, Snapshot, State, config::EndpointPickerConfig,
};

/// A request without content. A test sets the fields that it is about.
pub(crate) const REQUEST: Request<'static> = Request {
    id: "r",
    model: "m",
    cache_salt: "",
    prompts: &[],
    exact: false,
    multimodal: false,
    priority: 0,
    predictions: &[],
    burst_endpoint: None,
    media: &[],
    max_output_tokens: None,
    headers: &NoHeaders,
};

/// Builds a scheduler from plugins in YAML flow style, and the rest of the document.
fn scheduler(plugins: &str, rest: &str) -> Scheduler {
    try_scheduler(plugins, rest).unwrap()
}

pub(crate) fn try_scheduler(plugins: &str, rest: &str) -> Result<Scheduler, ConfigError> {
    let text =
        format!("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{plugins}]\n{rest}");
    let options = Options { allow_experimental: true, trace: true };
    Scheduler::new(&EndpointPickerConfig::parse(&text)?, options)
}

/// Headers by lower-case name.
#[derive(Debug, Default)]
struct RequestHeaders(BTreeMap<&'static str, String>);

impl HeaderLookup for RequestHeaders {
    fn header(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// An endpoint with these numbers and labels, freshly scraped.
pub(crate) fn snapshot(slot: u32, metrics: Metrics, labels: &[(&str, &str)]) -> Snapshot {
    let address = ([10, 0, 0, 1], u16::try_from(8000 + slot).unwrap()).into();
    let endpoint = Endpoint {
        slot: Slot(slot),
        namespace: "ns".to_owned(),
        name: format!("pod-{slot}"),
        address,
        host_port: address.to_string(),
        labels: labels.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
    };
    Snapshot { endpoint: Arc::new(endpoint), metrics: Arc::new(metrics), fresh: true }
}

/// A pool of endpoints with these numbers and labels.
fn pool(endpoints: Vec<(Metrics, &[(&str, &str)])>) -> Vec<Snapshot> {
    (0..).zip(endpoints).map(|(slot, (metrics, labels))| snapshot(slot, metrics, labels)).collect()
}

/// A pool of endpoints that do nothing.
pub(crate) fn idle(count: usize) -> Vec<Snapshot> {
    pool(vec![(Metrics::default(), &[]); count])
}

fn pick_as(
    scheduler: &Scheduler,
    state: &State,
    pool: &[Snapshot],
    (priority, headers, seed): (i32, &RequestHeaders, u64),
) -> Result<Decision, ScheduleError> {
    let prompts = [Prompt::from(b"prompt".to_vec())];
    let request = Request { prompts: &prompts, priority, headers, ..REQUEST };
    scheduler.schedule(state, &request, pool, 0, &mut StdRng::seed_from_u64(seed))
}
