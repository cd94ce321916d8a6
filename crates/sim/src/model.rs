//! The simulator as a model of the serving API.

use std::{io, net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use futures::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue};
use longboat_api::engine::VLLM;
use longboat_serving::{
    Adapter, Card, Job, JobStart, Layout, Media, Model, Part, Purpose, Refusal, Tool, Vectors, prefilled,
};
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    Args,
    caches::CacheSources,
    engine::{Engine, encoder},
    generation, handover, text, vectors,
};

/// The response header with the engine whose KV cache was used. The answer itself does not show it.
const SOURCE: HeaderName = HeaderName::from_static("x-simulated-kv-source");
/// The response header with the engine whose embeddings were used.
const EMBEDDINGS_SOURCE: HeaderName = HeaderName::from_static("x-simulated-ec-source");

/// The response header with the adapter that answered.
const ADAPTER: HeaderName = HeaderName::from_static("x-simulated-adapter");

/// The most adapters that requests may load.
const MAX_ADAPTERS: usize = 256;

/// A model that generates filler answers.
pub struct Simulator {
    engine: Arc<Engine>,
    card: Card,
    media: Option<Media>,
    vectors: Option<Vectors>,
    adapters: RwLock<Vec<Adapter>>,
    /// Another one at each start, as an engine's memory is another one.
    id: String,
}

// === impl Simulator ===

impl Simulator {
    /// Creates a simulator with these arguments.
    pub fn new(args: Args) -> Self {
        let owner = args.engine.dialect.map_or("vllm", |dialect| dialect.owner);
        let card = args.server.card(args.parameters.max_model_len, owner);
        let address = args.server.address;
        let id = format!("{}:{}-{:016x}", address.ip(), address.port(), rand::random::<u64>());
        let media = args.media.media();
        let vectors = (args.server.purpose == Purpose::Vectors).then(|| Vectors {
            width: args.vector_width,
            are_normalised: true,
            is_matryoshka: false,
            lengths: Vec::new(),
        });
        let adapters = RwLock::new(args.adapters.clone());
        Self { engine: Arc::new(Engine::new(args)), card, media, vectors, adapters, id }
    }

    /// Returns the engines of this server by rank, as mooncake's bootstrap endpoint lists them.
    pub(crate) fn engines(&self) -> Value {
        json!({ "0": { "engine_id": self.id, "worker_addr": self.engine.args.server.address.to_string() } })
    }

    /// The path of the metrics, if it is not vLLM's.
    pub(crate) fn own_metrics_path(&self) -> Option<&'static str> {
        let path = self.engine.args.engine.dialect?.engine.metrics;
        (path != VLLM.metrics).then_some(path)
    }

    /// The metrics, under the names of the simulated engine.
    pub(crate) fn page(&self) -> String {
        let engine = self.engine.args.engine;
        match engine.dialect {
            None => self.engine.page(),
            Some(dialect) if engine.has_metrics => dialect.page(&self.engine.page()),
            Some(_) => "# EOF\n".to_owned(),
        }
    }

    /// The adapter that answers a request. vLLM knows it by the name of the model, SGLang by a field, or by what follows a colon
    /// in the name of the model.
    fn adapter<'a>(&self, job: &'a Job) -> Result<Option<&'a str>, Refusal> {
        let is_loaded = |name: &str| self.adapters.read().iter().any(|known| known.name == name);
        if !self.answers_any_model() {
            return Ok(Some(job.model.as_str()).filter(|name| is_loaded(name)));
        }
        let in_model = job.model.split_once(':').map(|(_, adapter)| adapter);
        match in_model.or(job.adapter.as_deref()) {
            Some(name) if !is_loaded(name) => {
                Err(Refusal::bad_request(format!("Got LoRA adapter that has never been loaded: {name}")))
            }
            named => Ok(named),
        }
    }

    /// Publishes the events of the cache, if this is configured, until the returned tasks are dropped.
    pub(crate) async fn publish(
        &self,
        shutdown: &CancellationToken,
    ) -> Result<JoinSet<()>, (SocketAddr, io::Error)> {
        match &self.engine.events {
            Some(events) => events.serve(self.engine.args.server.address.ip(), shutdown).await,
            None => Ok(JoinSet::new()),
        }
    }
}

#[async_trait]
impl Model for Simulator {
    fn card(&self) -> &Card {
        &self.card
    }

    fn tokens(&self, text: &str) -> Vec<u32> {
        text::tokens(text)
    }

    /// Its template has no variables, and those that a request sets are left out as by each template that does not name them.
    fn apply_chat_template(&self, layout: &Layout<'_>) -> Result<String, Refusal> {
        let Layout { messages, tools, opens_answer, .. } = *layout;
        let mut prompt = String::new();
        if !tools.is_empty() {
            prompt.push_str("<|tools|>\n");
            for tool in tools {
                let Tool { name, description, parameters, .. } = tool;
                prompt.extend([name, " ", description, " ", &parameters.to_string(), "\n"]);
            }
        }
        for message in messages {
            prompt.extend(["<|", message.role.name(), "|>\n", &message.text, "\n"]);
            for call in &message.calls {
                prompt.extend([call.name.as_str(), " ", &call.arguments, "\n"]);
            }
        }
        if opens_answer {
            prompt.push_str("<|assistant|>\n");
        }
        Ok(prompt)
    }

    fn media(&self) -> Option<&Media> {
        self.media.as_ref()
    }

    fn vectors(&self) -> Option<&Vectors> {
        self.vectors.as_ref()
    }

    async fn embed(self: Arc<Self>, prompts: Vec<Vec<u32>>) -> Result<Vec<Vec<f32>>, Refusal> {
        vectors::embed(&self.engine, self.engine.args.vector_width, prompts).await
    }

    async fn start(self: Arc<Self>, mut job: Job) -> Result<JobStart, Refusal> {
        let args = &self.engine.args;
        // Names of adapters come from clients, and a name that no header can have is left out.
        let adapter = self.adapter(&job)?.and_then(|name| HeaderValue::from_str(name).ok());
        if let Some(refusal) = args.faults.refusal() {
            return Err(refusal);
        }
        // Answers are no choice of tokens.
        let sampling = &job.sampling;
        Refusal::check_unsupported([
            ("stop_token_ids", !sampling.stop_tokens.is_empty()),
            ("logit_bias", !sampling.biases.is_empty()),
            ("allowed_token_ids", sampling.allowed.is_some()),
            ("bad_words", !sampling.bad_words.is_empty()),
        ])?;
        handover::split_between_engines(args.disaggregation, &mut job);
        encoder::limit(args, &mut job);
        let prompt: usize = job.prompts.iter().map(|prompt| prompt.tokens.len()).sum();
        let caches = CacheSources::of(&job, args);
        let generation = generation::start(&self.engine, &job, caches).await?;
        let mut headers = HeaderMap::new();
        headers.extend(adapter.map(|name| (ADAPTER, name)));
        let source = handover::source(&job).filter(|_| caches.is_received);
        for (name, host) in [(SOURCE, source), (EMBEDDINGS_SOURCE, generation.embeddings_source())] {
            headers.extend(host.and_then(|host| Some((name, HeaderValue::from_str(host).ok()?))));
        }
        Ok(JobStart {
            ec_transfer_params: encoder::params(args, &job),
            cached_tokens: generation.cached_tokens(),
            kv_transfer_params: (job.part == Part::Prefill).then(|| transfer(&self.engine, prompt)),
            headers,
            events: generation.into_stream().boxed(),
        })
    }

    fn adapters(&self) -> Vec<Adapter> {
        self.adapters.read().clone()
    }

    fn allows_lora_updates(&self) -> bool {
        self.engine.args.allows_lora_updates
    }

    /// Loads any adapter, because no weights are read. The most is that of the CPU engine.
    async fn load_adapter(self: Arc<Self>, adapter: Adapter, _in_place: bool) -> Result<(), Refusal> {
        let mut adapters = self.adapters.write();
        match adapters.iter().position(|known| known.name == adapter.name) {
            Some(known) => adapters[known] = adapter,
            None if adapters.len() >= MAX_ADAPTERS => {
                return Err(Refusal::bad_request(format!(
                    "{MAX_ADAPTERS} LoRA adapters are loaded, which is the maximum: unload one first."
                )));
            }
            None => adapters.push(adapter),
        }
        Ok(())
    }

    fn unload_adapter(&self, name: &str) -> bool {
        let mut adapters = self.adapters.write();
        let before = adapters.len();
        adapters.retain(|adapter| adapter.name != name);
        adapters.len() < before
    }

    fn metrics(&self) -> String {
        // At this path, TensorRT-LLM has a list of iterations in JSON.
        if self.own_metrics_path().is_some() { "[]\n".to_owned() } else { self.page() }
    }

    fn answers_any_model(&self) -> bool {
        self.engine.args.engine.dialect.is_some_and(|dialect| dialect.answers_any_model)
    }
}

/// Returns the location of a prefill's KV cache, in the fields of vLLM's connector.
fn transfer(engine: &Engine, prompt: usize) -> Value {
    let blocks = prompt.div_ceil(engine.args.parameters.block_size);
    let address = engine.args.server.address;
    let mut params = prefilled(&format!("{}:{}", address.ip(), address.port()), address);
    params["remote_block_ids"] = json!([(0..blocks).collect::<Vec<_>>()]);
    params
}
