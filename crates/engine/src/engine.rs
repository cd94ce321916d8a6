//! A loaded generation model, as a [`Model`] of the serving API.

use std::{
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use http::HeaderMap;
use longboat_serving::{
    Adapter as AdapterCard, Card, Choice, Job, JobStart, Layout, Metrics, Model, Refusal, Sampling, Tools,
    kv_events::Publisher,
};
use parking_lot::RwLock;
use prometheus_client::metrics::counter::Counter;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{Semaphore, mpsc, oneshot},
};
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    Args, LoadError,
    args::MAX_QUEUED_REQUESTS,
    batch::Batch,
    blocking::blocking,
    cache::{Blocks, Kv},
    gauges::{Gauges, SequenceGauge},
    inbox::Inbox,
    lora::{Adapter, AdapterError, Adapters, Usage},
    memory,
    model::{Config, Transformer},
    sample::{BadWords, Sampler},
    sequence::{FORMS_KIB, Sequence, SharedForm},
    shape::{Form, Vocabulary},
    text::{Calls, Patterns, Pieces, Stops, Template, Tokenizer, load_tokenizer},
    transfer::{self, Connector, Leases, RequestTransfers},
    weights::Weights,
    worker::Worker,
};

/// Forms that are compiled at once. Each may take seconds, and 400 MiB meanwhile.
const MAX_COMPILERS: usize = 2;

/// A model that computes its answers.
pub struct Engine {
    card: Card,
    tokenizer: Arc<Tokenizer>,
    template: Option<Template>,
    inbox: Inbox<Sequence>,
    metrics: Arc<Metrics>,
    gauges: Arc<Gauges>,
    connector: Option<Arc<Connector>>,
    events: Option<Arc<Publisher>>,
    /// The number of tokens in the vocabulary.
    vocabulary: usize,
    /// `None` if adapters are not enabled.
    adapters: Option<Arc<Adapters>>,
    usage: Arc<Usage>,
    /// The most adapters in one batch.
    max_adapters: usize,
    /// The most answers that wait and run.
    max_answers: usize,
    allows_lora_updates: bool,
    /// The tokens for forms, prepared at the first request with one, or why this model's answers can have none.
    tokens: OnceLock<Result<Vocabulary, String>>,
    /// A permit for each KiB that the forms of all requests may take.
    form_memory: Arc<Semaphore>,
    /// Forms that may be compiled now.
    compilers: Arc<Semaphore>,
    /// Whether calls of tools are read from answers.
    reads_calls: bool,
}

// === impl Engine ===

impl Engine {
    /// Loads a model and starts the computing thread. This takes as long as reading the weights.
    pub fn load(args: &Args) -> Result<Self, LoadError> {
        let (folder, weights) = open(args)?;
        Self::load_from(args, folder, &weights)
    }

    /// Like [`Self::load`], with weights that are already open.
    pub(crate) fn load_from(args: &Args, folder: &Path, weights: &Weights) -> Result<Self, LoadError> {
        let config = Config::of(weights)?;
        let tokenizer = Arc::new(load_tokenizer(folder, weights)?);
        let template = Template::load(args.template.as_deref(), folder, weights, args.program.clone())?;
        let token_bytes = config.cached_numbers() * size_of::<f32>();
        let block_bytes = token_bytes * args.block_size;
        let blocks = (args.cache_bytes / block_bytes).max(1);
        // Every accepted request fits into the cache alone, so it can always be completed.
        let context = context(args.max_model_len, config.context, blocks * args.block_size)?;
        memory::check(weights.memory(args.as_shipped), (blocks * block_bytes) as u64)?;
        let transformer = Transformer::load(weights, config, context, args.as_shipped)?;
        let config = transformer.config();
        tracing::info!(
            model = args.server.model,
            architecture = config.architecture,
            weights_mib = transformer.bytes() >> 20,
            cache_mib = (blocks * block_bytes) >> 20,
            context,
            "Loaded the model; it runs on the CPU.",
        );
        let vocabulary = config.vocabulary;
        let adapters = args
            .lora
            .enabled
            .then(|| Adapters::new(config.clone(), args.lora.max_rank, args.lora.max_in_memory));
        for card in &args.lora.modules {
            if let Some(adapters) = &adapters {
                adapters.load(card.clone(), false).map_err(|error| error.into_load_error(&card.name))?;
            }
        }
        let kv = Kv::new(config.layers, blocks, args.block_size, config.kv_heads, config.head_width);
        let card = args.server.card(context, "vllm");
        let name = card.names.first().map_or("", String::as_str);
        let metrics = Metrics::new(name, args.block_size, blocks);
        let mut metrics = if args.lora.enabled { metrics.with_adapters() } else { metrics };
        let kv = Arc::new(RwLock::new(kv));
        let (leases, connector) = match &args.kv_transfer {
            None => (Arc::new(Leases::new(Duration::ZERO, 0, Counter::default())), None),
            Some(settings) => {
                let connector =
                    Connector::new(settings, weights, &kv, args.max_waiting, metrics.transfers())?;
                (connector.leases(), Some(Arc::new(connector)))
            }
        };
        let metrics = Arc::new(metrics);
        let gauges = Arc::<Gauges>::default();
        let events = args.server.kv_events.clone().and_then(Publisher::new);
        let blocks = Blocks::new(blocks, args.block_size, args.caches_prefixes, events.clone());
        let preemptions = metrics.preemptions.clone();
        let batch = Batch::new(blocks, leases, preemptions, args);
        let max_answers = args.max_waiting.saturating_add(args.max_num_seqs);
        let worker = Worker {
            transformer,
            tokenizer: Arc::clone(&tokenizer),
            kv,
            batch,
            metrics: Arc::clone(&metrics),
            gauges: Arc::clone(&gauges),
        };
        Ok(Self {
            card,
            vocabulary,
            adapters: adapters.map(Arc::new),
            usage: Arc::default(),
            max_adapters: args.lora.max_adapters,
            max_answers,
            allows_lora_updates: args.lora.allows_updates,
            tokens: OnceLock::new(),
            form_memory: Arc::new(Semaphore::new(FORMS_KIB)),
            compilers: Arc::new(Semaphore::new(MAX_COMPILERS)),
            reads_calls: args.reads_calls,
            tokenizer,
            template,
            inbox: Inbox::new(args, max_answers.min(MAX_QUEUED_REQUESTS), move |sequences| {
                worker.run(sequences);
            })?,
            metrics,
            gauges,
            connector,
            events,
        })
    }

    /// Transfers KV caches. `None` without `--kv-transfer-config`.
    pub(crate) fn connector(&self) -> Option<&Arc<Connector>> {
        self.connector.as_ref()
    }

    /// Publishes the events of the prefix cache. `None` if they are not published.
    pub(crate) fn events(&self) -> Option<&Arc<Publisher>> {
        self.events.as_ref()
    }

    /// Returns the adapter of a job. Reads the adapter again if its memory was released. Returns `None` for the model itself.
    async fn adapter(&self, name: &str) -> Result<Option<Arc<Adapter>>, Refusal> {
        let Some(adapters) =
            self.adapters.clone().filter(|_| !self.card.names.iter().any(|known| known == name))
        else {
            return Ok(None);
        };
        let owned = name.to_owned();
        blocking(move || adapters.get(&owned))
            .await
            .map_err(|error| Refusal::failed(format!("While reading the LoRA adapter {name} again: {error}")))
    }

    /// Puts the answers of a job into the queue.
    fn enqueue(
        &self,
        job: &Job,
        form: Option<&SharedForm>,
        adapter: Option<&Arc<Adapter>>,
        transfers: &mut RequestTransfers,
    ) -> Result<EnqueuedJob, Refusal> {
        self.check_token_ids(job)?;
        // The adapter may have been unloaded since the request was checked.
        if adapter.is_none() && !self.card.names.contains(&job.model) {
            return Err(Refusal::not_found(format!("The model `{}` does not exist.", job.model)));
        }
        let sampling = Arc::new(job.sampling.clone());
        let patterns = Patterns::new(&sampling.stops);
        let bad_words = BadWords::new(&sampling.bad_words, &self.tokenizer);
        let limits = job.prompts.iter().map(|prompt| (prompt.limit + 2) * job.copies).sum();
        let (events, receiver) = mpsc::channel(limits);
        let mut starts = Vec::new();
        for (number, prompt) in job.prompts.iter().enumerate() {
            for copy in 0..job.copies {
                let gauge = SequenceGauge::waiting(&self.gauges);
                // Those that run count, too: an answer that need not wait counts as waiting until the worker has seen it.
                if self.gauges.answers() > self.max_answers {
                    return Err(Refusal::queue_full());
                }
                let (start_notice, start) = oneshot::channel();
                let sequence = Sequence {
                    tokens: prompt.tokens.clone(),
                    prompt: prompt.tokens.len(),
                    limit: prompt.limit,
                    sampler: Sampler::new(&job.sampling, &prompt.tokens, copy),
                    pieces: Pieces::default(),
                    form: form.cloned(),
                    calls: job.tools.as_ref().map(Calls::new),
                    stops: Stops::new(patterns.clone(), sampling.include_stop),
                    bad_words: bad_words.clone(),
                    sampling: Arc::clone(&sampling),
                    choice: number * job.copies + copy,
                    events: events.clone(),
                    unsent: Vec::new(),
                    start_notice: Some(start_notice),
                    adapter: adapter.map(|adapter| self.usage.lease(Arc::clone(adapter))),
                    gauge,
                    blocks: Vec::new(),
                    computed: 0,
                    hash: None,
                    handoff: transfers.handoff.take(),
                    imported: transfers.imported.clone(),
                    arrived: Instant::now(),
                    last_token: None,
                };
                self.inbox.send(sequence)?;
                // Further copies find the prompt in the cache, because the first copy has computed it.
                if copy == 0 {
                    starts.push(start);
                }
            }
        }
        Ok(EnqueuedJob { starts, events: receiver })
    }

    /// Refuses tokens that the model does not know.
    fn check_token_ids(&self, job: &Job) -> Result<(), Refusal> {
        let is_unknown = |token: &u32| *token as usize >= self.vocabulary;
        if let Some(token) =
            job.prompts.iter().flat_map(|prompt| &prompt.tokens).find(|token| is_unknown(token))
        {
            return Err(Refusal::bad_request(format!("Token id {token} is out of vocabulary")));
        }
        let Sampling { biases, stop_tokens, allowed, .. } = &job.sampling;
        let biased: Vec<u32> = biases.iter().map(|(token, _)| *token).collect();
        for (field, tokens) in [("logit_bias", &biased), ("stop_token_ids", stop_tokens)] {
            let unknown: Vec<_> = tokens.iter().filter(|token| is_unknown(token)).collect();
            if !unknown.is_empty() {
                let size = self.vocabulary;
                let message = format!(
                    "token_id(s) {unknown:?} in {field} contain out-of-vocab token ids. Vocabulary size: {size}"
                );
                return Err(Refusal::parameter(field, message, Some(&format!("{unknown:?}"))));
            }
        }
        if let Some(tokens) = allowed.as_ref().filter(|tokens| tokens.iter().any(is_unknown)) {
            let message = "allowed_token_ids contains out-of-vocab token id!";
            return Err(Refusal::parameter("allowed_token_ids", message, Some(&format!("{tokens:?}"))));
        }
        Ok(())
    }

    /// Compiles the form of a job.
    async fn compile(self: Arc<Self>, job: Job) -> Result<(Option<SharedForm>, Job), Refusal> {
        if job.shape.is_none() && job.tools.as_ref().and_then(Tools::forced).is_none() {
            return Ok((None, job));
        }
        let turn = Arc::clone(&self.compilers).acquire_owned().await;
        // The thread keeps its turn to the end, even if the client leaves.
        blocking(move || {
            let _turn = turn;
            Ok((self.form(&job)?, job))
        })
        .await
    }

    /// The form that answers must have, before their first token.
    fn form(&self, job: &Job) -> Result<Option<SharedForm>, Refusal> {
        let forced = job.tools.as_ref().and_then(Tools::forced);
        let field = match (&job.shape, &forced) {
            (None, None) => return Ok(None),
            (Some(_), None) => job.shape_field.as_str(),
            (None, Some(_)) => "tool_choice",
            (Some(_), Some(_)) => {
                return Err(Refusal::field(
                    "tool_choice",
                    "tool_choice: the tool determines the form of a call, so a forced call cannot be \
                     combined with response_format or structured_outputs.",
                ));
            }
        };
        let tokens = self.tokens.get_or_init(|| {
            let bytes = self.tokenizer.words().ok_or("the tokens of this model are not made of bytes")?;
            Vocabulary::new(bytes, self.tokenizer.end_tokens())
        });
        let tokens = tokens.as_ref().map_err(|reason| Refusal::field(field, format!("{field}: {reason}")))?;
        let form = match (&job.shape, forced) {
            (Some(shape), _) => Form::new(shape, tokens).map_err(|reason| Refusal::field(field, reason))?,
            (None, tools) => Form::call(&tools.unwrap_or_default(), tokens)
                .map_err(|reason| Refusal::field(field, format!("{field}: {reason}")))?,
        };
        SharedForm::new(form, &self.form_memory).map(Some).map_err(|reason| {
            Refusal::overloaded(format!("{reason}; try again later, or use a smaller schema."))
        })
    }
}

/// Returns a model's folder and its weights. Only the headers of the weights are read.
pub(crate) fn open(args: &Args) -> Result<(&Path, Weights), LoadError> {
    let path = Path::new(&args.server.model);
    let folder = if path.is_file() { path.parent().unwrap_or(path) } else { path };
    Ok((folder, Weights::open(path)?))
}

/// The answers of a job in the queue.
struct EnqueuedJob {
    /// Receives the number of cached tokens when the first answer to a prompt starts.
    starts: Vec<oneshot::Receiver<usize>>,
    events: mpsc::Receiver<Vec<longboat_serving::Event>>,
}

/// Returns the limit of tokens for a prompt with its answer: the requested one, or else the most that model and cache allow.
/// Fails if the requested one is above these limits.
pub(crate) fn context(max_model_len: Option<usize>, model: usize, cache: usize) -> Result<usize, LoadError> {
    let limits = [("the model", model), ("the KV cache (see `--kv-cache-memory-bytes`)", cache)];
    let Some(max_model_len) = max_model_len else { return Ok(model.min(cache)) };
    match limits.into_iter().find(|(_, limit)| max_model_len > *limit) {
        Some((of, limit)) => Err(LoadError::Context { max_model_len, limit, of }),
        None => Ok(max_model_len),
    }
}

#[async_trait]
impl Model for Engine {
    fn card(&self) -> &Card {
        &self.card
    }

    fn tokens(&self, text: &str) -> Vec<u32> {
        self.tokenizer.tokens(text)
    }

    fn text(&self, tokens: &[u32]) -> Option<String> {
        Some(self.tokenizer.text(tokens, true))
    }

    fn longest_token(&self) -> Option<usize> {
        Some(self.tokenizer.longest)
    }

    fn apply_chat_template(&self, layout: &Layout<'_>) -> Result<String, Refusal> {
        apply_template(&self.tokenizer, self.template.as_ref(), layout)
    }

    async fn start(self: Arc<Self>, job: Job) -> Result<JobStart, Refusal> {
        refuse(&job, self.reads_calls)?;
        let adapter = self.adapter(&job.model).await?;
        let (form, job) = self.clone().compile(job).await?;
        let mut transfers = transfer::prepare(self.connector.as_deref(), &job).await?;
        let EnqueuedJob { starts, events } =
            self.enqueue(&job, form.as_ref(), adapter.as_ref(), &mut transfers)?;
        // The response says how much of the prompts was cached, which is known when they start.
        let mut cached_tokens = 0;
        for start in starts {
            cached_tokens +=
                start.await.map_err(|_| Refusal::overloaded("The engine has dropped the request."))?;
        }
        Ok(JobStart {
            cached_tokens,
            kv_transfer_params: transfers.params().await,
            ec_transfer_params: None,
            headers: HeaderMap::new(),
            events: ReceiverStream::new(events).flat_map(stream::iter).boxed(),
        })
    }

    fn adapters(&self) -> Vec<AdapterCard> {
        self.adapters.as_ref().map(|adapters| adapters.model_cards()).unwrap_or_default()
    }

    fn allows_lora_updates(&self) -> bool {
        self.allows_lora_updates
    }

    async fn load_adapter(self: Arc<Self>, adapter: AdapterCard, in_place: bool) -> Result<(), Refusal> {
        let Some(adapters) = self.adapters.clone() else {
            return Err(Refusal::failed("LoRA is not enabled. Use --enable-lora to enable LoRA."));
        };
        let (name, path) = (adapter.name.clone(), adapter.path.clone());
        blocking(move || adapters.load(adapter, in_place)).await.map_err(|error| match error {
            AdapterError::Missing { .. } => Refusal::not_found(error.to_string()),
            AdapterError::Loaded(_) | AdapterError::TooMany => Refusal::bad_request(error.to_string()),
            AdapterError::Unusable(error) => Refusal::failed(format!("While loading {path}: {error}")),
        })?;
        tracing::info!(name, path, "Loaded a LoRA adapter.");
        Ok(())
    }

    fn unload_adapter(&self, name: &str) -> bool {
        let unloaded = self.adapters.as_ref().is_some_and(|adapters| adapters.unload(name));
        if unloaded {
            tracing::info!(name, "Unloaded a LoRA adapter.");
        }
        unloaded
    }

    #[expect(clippy::cast_precision_loss, reason = "a share of the cache")]
    fn metrics(&self) -> String {
        let read = |gauge: &AtomicI64| gauge.load(Ordering::Relaxed);
        let Gauges { waiting, running, cache } = &*self.gauges;
        if self.adapters.is_some() {
            let [running, waiting] = self.usage.names();
            self.metrics.adapters(self.max_adapters, running, waiting);
        }
        self.metrics.page(read(running), read(waiting), read(cache) as f64 / 1e6)
    }
}

/// Renders a conversation as one text.
pub(crate) fn apply_template(
    tokenizer: &Tokenizer,
    template: Option<&Template>,
    layout: &Layout<'_>,
) -> Result<String, Refusal> {
    let Some(template) = template else {
        return Err(Refusal::bad_request(
            "This model has no chat template: use /v1/completions, or an instruct model.",
        ));
    };
    if !layout.tools.is_empty() && !template.knows_tools {
        return Err(Refusal::field("tools", "The chat template of this model does not support tools."));
    }
    let render = || template.render(tokenizer, layout);
    let rendered = match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        // A template may take seconds.
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(render),
        _ => render(),
    };
    rendered.map_err(|reason| {
        Refusal::field(
            "messages",
            format!("The chat template of this model refuses the conversation: {reason}"),
        )
    })
}

/// Refuses requests for features that the engine does not support.
fn refuse(job: &Job, reads_calls: bool) -> Result<(), Refusal> {
    match job.tools.as_ref().map(|tools| &tools.choice) {
        Some(Choice::Auto) if !reads_calls => Err(Refusal::bad_request(
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
        )),
        _ => Ok(()),
    }
}
