//! An embedding model, as a [`Model`] of the serving API. It does not generate text.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering, mpsc::Receiver},
    time::Instant,
};

use async_trait::async_trait;
use longboat_serving::{Card, Job, JobStart, Layout, Metrics, Model, Refusal, Vectors};
use tokio::sync::oneshot;

use crate::{
    Args, LoadError,
    cache::{Block, Kv, Table},
    engine::context,
    gauges::{Gauges, SequenceGauge},
    inbox::Inbox,
    memory,
    model::{Config, Span, Transformer},
    pooling::{Pooling, PoolingConfig},
    text::{Tokenizer, load_tokenizer},
    weights::Weights,
};

/// An embedding model.
pub(crate) struct Embedder {
    card: Card,
    vectors: Vectors,
    vocabulary: usize,
    tokenizer: Tokenizer,
    inbox: Inbox<Request>,
    metrics: Arc<Metrics>,
    gauges: Arc<Gauges>,
}

/// A request with texts to embed.
struct Request {
    prompts: Vec<Vec<u32>>,
    gauge: SequenceGauge,
    arrived: Instant,
    vectors: oneshot::Sender<candle_core::Result<Vec<Vec<f32>>>>,
}

/// The thread that computes one text after another.
struct Worker {
    transformer: Transformer,
    pooling: PoolingConfig,
    kv: Kv,
    /// All blocks of the cache. Each text uses them alone.
    blocks: Vec<Block>,
    max_tokens: usize,
    metrics: Arc<Metrics>,
}

// === impl Embedder ===

impl Embedder {
    /// Loads a model and starts the computing thread.
    pub(crate) fn load(
        args: &Args,
        folder: &Path,
        weights: &Weights,
        pooling: PoolingConfig,
    ) -> Result<Self, LoadError> {
        for (flag, is_set) in [
            ("--enable-lora", args.lora.enabled),
            ("--kv-transfer-config", args.kv_transfer.is_some()),
            ("--kv-events-config", args.server.kv_events.is_some()),
        ] {
            if is_set {
                let what = format!("`{flag}` with an embedding model");
                return Err(LoadError::unsupported(weights.path(), what));
            }
        }
        let config = Config::of(weights)?;
        let tokenizer = load_tokenizer(folder, weights)?;
        let block_bytes = config.cached_numbers() * size_of::<f32>() * args.block_size;
        let max_blocks = (args.cache_bytes / block_bytes).max(1);
        let context = context(args.max_model_len, config.context, max_blocks * args.block_size)?;
        let blocks = context.div_ceil(args.block_size);
        memory::check(weights.memory(args.as_shipped), (blocks * block_bytes) as u64)?;
        let transformer = Transformer::load(weights, config, context, args.as_shipped)?;
        let config = transformer.config();
        let vectors = Vectors {
            width: config.width,
            are_normalised: pooling.normalises,
            ..shortened_lengths(weights, config.width)
        };
        let vocabulary = config.vocabulary;
        let kv = Kv::new(config.layers, blocks, args.block_size, config.kv_heads, config.head_width);
        tracing::info!(
            model = args.server.model,
            architecture = config.architecture,
            weights_mib = transformer.bytes() >> 20,
            context,
            "Loaded the embedding model; it runs on the CPU.",
        );
        let card = args.server.card(context, "vllm");
        let name = card.names.first().map_or("", String::as_str);
        let metrics = Arc::new(Metrics::new(name, args.block_size, blocks));
        let worker = Worker {
            transformer,
            pooling,
            kv,
            blocks: Block::all(blocks),
            max_tokens: args.max_batched_tokens,
            metrics: Arc::clone(&metrics),
        };
        let inbox = Inbox::new(args, args.max_waiting, move |requests| worker.run(requests))?;
        Ok(Self { card, vectors, vocabulary, tokenizer, inbox, metrics, gauges: Arc::default() })
    }
}

/// Reads whether vectors can be shortened, and to which lengths, from the fields that vLLM reads in `config.json`.
fn shortened_lengths(weights: &Weights, width: usize) -> Vectors {
    let mut vectors = Vectors { width, are_normalised: false, is_matryoshka: false, lengths: Vec::new() };
    if let Weights::Safetensors(files) = weights {
        let lengths = files.config()["matryoshka_dimensions"].as_array();
        let lengths =
            lengths.into_iter().flatten().filter_map(|length| usize::try_from(length.as_u64()?).ok());
        vectors.lengths = lengths.filter(|length| (1..=width).contains(length)).collect();
        vectors.is_matryoshka = !vectors.lengths.is_empty() || files.config()["is_matryoshka"] == true;
    }
    vectors
}

// === impl Worker ===

impl Worker {
    /// Computes until all senders are dropped.
    fn run(mut self, inbox: &Receiver<Request>) {
        while let Ok(Request { prompts, mut gauge, arrived, vectors: sender }) = inbox.recv() {
            gauge.set_running(true);
            let mut vectors = Vec::with_capacity(prompts.len());
            for prompt in &prompts {
                // The client has disconnected, so the remaining vectors are not needed.
                if sender.is_closed() {
                    break;
                }
                vectors.push(self.vector(prompt));
                self.metrics.processed(prompt.len());
                self.metrics.finished("stop", arrived.elapsed());
            }
            // Before the answer, so that a client that has it does not see its own request in the metrics.
            drop(gauge);
            let _ = sender.send(vectors.into_iter().collect());
        }
    }

    /// Computes the vector of a text, in several forward passes if needed.
    #[expect(clippy::cast_precision_loss, reason = "texts are short")]
    fn vector(&mut self, prompt: &[u32]) -> candle_core::Result<Vec<f32>> {
        let width = self.transformer.config().width;
        let mut vector = vec![0.0; width];
        let mut start = 0;
        // Tokens attend only to those before them, so later parts change no state of an earlier one.
        for tokens in prompt.chunks(self.max_tokens) {
            let table = Table(&self.blocks);
            let span = Span { tokens, start, table, predicts: false, adapter: None };
            let states = self.transformer.states(span, &mut self.kv)?;
            match self.pooling.pooling {
                Pooling::First if start == 0 => vector.copy_from_slice(&states[..width]),
                Pooling::First => {}
                Pooling::Last => vector.copy_from_slice(&states[states.len() - width..]),
                Pooling::Mean => {
                    for state in states.chunks_exact(width) {
                        for (sum, number) in vector.iter_mut().zip(state) {
                            *sum += number / prompt.len() as f32;
                        }
                    }
                }
            }
            start += tokens.len();
        }
        if self.pooling.normalises {
            longboat_serving::normalise(&mut vector);
        }
        Ok(vector)
    }
}

#[async_trait]
impl Model for Embedder {
    fn card(&self) -> &Card {
        &self.card
    }

    fn tokens(&self, text: &str) -> Vec<u32> {
        self.tokenizer.tokens(text)
    }

    fn longest_token(&self) -> Option<usize> {
        Some(self.tokenizer.longest)
    }

    fn apply_chat_template(&self, _: &Layout<'_>) -> Result<String, Refusal> {
        Err(Refusal::bad_request("This model computes embeddings and does not generate text."))
    }

    fn vectors(&self) -> Option<&Vectors> {
        Some(&self.vectors)
    }

    async fn embed(self: Arc<Self>, prompts: Vec<Vec<u32>>) -> Result<Vec<Vec<f32>>, Refusal> {
        if let Some(token) = prompts.iter().flatten().find(|token| **token as usize >= self.vocabulary) {
            return Err(Refusal::field("input", format!("Token id {token} is out of vocabulary")));
        }
        let (sender, vectors) = oneshot::channel();
        let gauge = SequenceGauge::waiting(&self.gauges);
        self.inbox.send(Request { prompts, gauge, arrived: Instant::now(), vectors: sender })?;
        let vectors =
            vectors.await.map_err(|_| Refusal::overloaded("The engine has dropped the request."))?;
        vectors.map_err(|error| {
            tracing::error!(%error, "A forward pass failed.");
            Refusal::failed("A forward pass failed.")
        })
    }

    async fn start(self: Arc<Self>, _: Job) -> Result<JobStart, Refusal> {
        Err(Refusal::not_found("Not Found"))
    }

    fn metrics(&self) -> String {
        let Gauges { waiting, running, .. } = &*self.gauges;
        self.metrics.page(running.load(Ordering::Relaxed), waiting.load(Ordering::Relaxed), 0.0)
    }
}
