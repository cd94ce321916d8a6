//! `longboat simulate calibrate`: the times of an engine, measured at a server.

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    cli::CalibrateArgs,
    printer,
    up::{prompt, service},
};

/// The length of short prompts, in words.
const SHORT_WORDS: usize = 32;
/// Requests of each length. The median counts.
const SAMPLES: usize = 5;
const OUTPUT_TOKENS: usize = 48;
const MAX_CONCURRENT: usize = 256;
/// The tokens of a block of `--kv-cache-size`.
const BLOCK_TOKENS: usize = 16;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_mins(2);
/// The longest answer that is read.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// The times of one request.
#[derive(Debug, Clone, Copy)]
struct Measurement {
    first_token: f64,
    between_tokens: f64,
    prompt_tokens: f64,
}

/// Measures the server, and prints flags.
pub(super) async fn run(args: &CalibrateArgs) -> anyhow::Result<()> {
    if !(1..=MAX_CONCURRENT).contains(&args.parallel) {
        bail!("--parallel {}: expected 1 to {MAX_CONCURRENT}", args.parallel);
    }
    let args = &CalibrateArgs { url: root(&args.url).to_owned(), model: args.model.clone(), ..*args };
    let client = Client::builder().connect_timeout(CONNECT_TIMEOUT).build()?;
    let mut short = Vec::new();
    let mut long = Vec::new();
    for sample in 0..SAMPLES {
        short.push(measure(&client, args, SHORT_WORDS, sample).await?);
        long.push(measure(&client, args, args.prompt_tokens as usize, sample + SAMPLES).await?);
    }
    // With numbers that no prompt before had: a prefix cache would know it.
    let together = (0..args.parallel).map(|index| measure(&client, args, SHORT_WORDS, index + 1000));
    let loaded: Vec<Measurement> =
        futures::future::join_all(together).await.into_iter().collect::<anyhow::Result<_>>()?;
    let limit = args.max_num_seqs.map_or(args.parallel, |limit| limit as usize);
    let mut flags = flags(&short, &long, &loaded, limit);
    if let Some(blocks) = cache_blocks(&client, args).await {
        flags = format!("{flags} --kv-cache-size {blocks}");
    } else {
        printer::note("note: the server does not tell the size of its KV cache; add --kv-cache-size N");
    }
    printer::line(&flags);
    if args.max_num_seqs.is_none() {
        printer::note(&format!(
            "note: --max-num-seqs {limit} is how many requests were sent at the same time; with --max-num-seqs N, give the engine's \
             batch limit"
        ));
    }
    Ok(())
}

/// The address of the server: clients of OpenAI's API are given it with `/v1`.
fn root(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    url.strip_suffix("/v1").unwrap_or(url)
}

/// The size of the KV cache in blocks of 16 tokens, from the engine's metrics.
async fn cache_blocks(client: &Client, args: &CalibrateArgs) -> Option<usize> {
    let url = format!("{}/metrics", args.url);
    let answer = client.get(url).timeout(CONNECT_TIMEOUT).send().await.ok()?.error_for_status().ok()?;
    blocks_of(&service::beginning(answer).await)
}

/// vLLM has the number of blocks and the tokens of each as labels, and SGLang has both as metrics.
fn blocks_of(metrics: &str) -> Option<usize> {
    let label = |name: &str| {
        let line = metrics.lines().find(|line| line.starts_with("vllm:cache_config_info{"))?;
        let (_, after) = line.split_once(&format!("{name}=\""))?;
        after.split_once('"')?.0.parse::<usize>().ok()
    };
    let gauge = |name: &str| {
        let mut samples = metrics.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        let value: f64 = samples.next()?.rsplit_once(' ')?.1.parse().ok()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates, and counts are whole"
        )]
        Some(value as usize)
    };
    let blocks = label("num_gpu_blocks").or_else(|| gauge("sglang:num_pages"))?;
    let tokens = label("block_size").or_else(|| gauge("sglang:page_size"))?;
    Some(blocks.checked_mul(tokens)? / BLOCK_TOKENS).filter(|blocks| *blocks > 0)
}

/// Computes the flags: a line through the times of short and long prompts, and the ratio of the speeds with and without load. Each
/// further request slows the others down by the same time, up to the batch limit.
fn flags(short: &[Measurement], long: &[Measurement], loaded: &[Measurement], max_num_seqs: usize) -> String {
    let first = |of: &[Measurement]| median(of.iter().map(|one| one.first_token));
    let tokens = |of: &[Measurement]| median(of.iter().map(|one| one.prompt_tokens));
    let per_token = ((first(long) - first(short)) / (tokens(long) - tokens(short)).max(1.0)).max(0.0);
    let fixed = (first(short) - per_token * tokens(short)).max(0.0);
    // Attention makes each token of a long context slower, and the model has one time for all.
    let between = |of: &[Measurement]| median(of.iter().map(|one| one.between_tokens));
    let alone = between(short);
    // A server may answer in one piece, which looks like no time between tokens.
    let measured = between(loaded) / alone.max(1e-9);
    let between = alone.midpoint(between(long));
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let further = (max_num_seqs - 1) as f64 / (loaded.len() - 1).max(1) as f64;
    let factor = (1.0 + (measured - 1.0) * further).clamp(1.0, 1000.0);
    format!(
        "--time-to-first-token {:.0}us --prefill-time-per-token {:.0}ns --inter-token-latency {:.0}us \
         --time-factor-under-load {factor:.2} --max-num-seqs {max_num_seqs}",
        fixed * 1e6,
        per_token * 1e9,
        between * 1e6
    )
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Sends a request whose prompt no cache knows, and measures its stream.
async fn measure(
    client: &Client,
    args: &CalibrateArgs,
    words: usize,
    sample: usize,
) -> anyhow::Result<Measurement> {
    let url = format!("{}/v1/completions", args.url);
    let body = json!({
        "model": args.model, "prompt": prompt(words, sample), "max_tokens": OUTPUT_TOKENS, "ignore_eos": true,
        "min_tokens": OUTPUT_TOKENS, "stream": true, "stream_options": {"include_usage": true}
    });
    let measured = tokio::time::timeout(REQUEST_TIMEOUT, stream(client, &url, &body)).await;
    measured.with_context(|| format!("{url}: no complete answer in {} s", REQUEST_TIMEOUT.as_secs()))?
}

async fn stream(client: &Client, url: &str, body: &Value) -> anyhow::Result<Measurement> {
    let begun = Instant::now();
    let request = client.post(url).header("content-type", "application/json").body(body.to_string());
    let request = prompt::given_key().into_iter().fold(request, RequestBuilder::bearer_auth);
    let response = request.send().await.with_context(|| format!("cannot send a request to {url}"))?;
    let status = response.status();
    if !status.is_success() {
        let text = service::beginning(response).await;
        bail!("{url} answers {status}: {}", text.chars().take(300).collect::<String>());
    }
    let mut chunks = response.bytes_stream();
    let (mut first, mut last, mut tail, mut bytes) = (None, None, Vec::new(), 0);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.with_context(|| format!("cannot read the answer of {url}"))?;
        bytes += chunk.len();
        if bytes > MAX_ANSWER_BYTES {
            bail!("{url}: the answer is longer than {} MiB", MAX_ANSWER_BYTES >> 20);
        }
        first.get_or_insert_with(Instant::now);
        last = Some(Instant::now());
        tail.extend_from_slice(&chunk);
    }
    let text = String::from_utf8_lossy(&tail);
    let events = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let usage = events.filter_map(|event| serde_json::from_str::<Value>(event).ok()).find_map(|event| {
        let usage = event.get("usage")?;
        Some((usage.get("prompt_tokens")?.as_f64()?, usage.get("completion_tokens")?.as_f64()?))
    });
    let (Some(first), Some(last), Some((prompt_tokens, output))) = (first, last, usage) else {
        bail!("{url}: the answer is no stream with `usage`");
    };
    Ok(Measurement {
        first_token: (first - begun).as_secs_f64(),
        between_tokens: (last - first).as_secs_f64() / (output - 1.0).max(1.0),
        prompt_tokens,
    })
}

/// Returns a prompt of words that tokenizers know, so that it has about as many tokens. It begins with a number that differs between
/// samples and between runs: a prefix cache knows no block of it.
fn prompt(words: usize, sample: usize) -> String {
    const WORDS: [&str; 8] = ["the", "sea", "is", "not", "a", "road", "for", "us"];
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let words = (0..words).map(|word| WORDS[word % WORDS.len()]);
    std::iter::once(format!("{:x} {sample}:", now.as_nanos()))
        .chain(words.map(str::to_owned))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_the_version_of_the_api_is_the_same_server() {
        let roots = ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"].map(super::root);
        assert_eq!(roots, ["http://h:1"; 4]);
        assert_eq!(super::root("http://h/ns/chat/v1"), "http://h/ns/chat");
    }

    #[test]
    fn prompts_differ_from_the_start_and_are_as_long_as_their_words() {
        let (one, other) = (prompt(1024, 1), prompt(1024, 2));
        assert_ne!(one[..32], other[..32]);
        // A tokenizer has about a token for each of these words, and some for the number.
        assert_eq!(one.split_whitespace().count(), 1024 + 2);
        assert!(one.len() < 1024 * 4 + 64, "{}", one.len());
    }

    #[test]
    fn the_flags_are_those_of_an_engine_with_the_measured_times() {
        let times = |first_token, between_tokens, prompt_tokens| {
            vec![Measurement { first_token, between_tokens, prompt_tokens }; 3]
        };
        let (short, long, loaded) =
            (times(0.021, 0.006, 100.0), times(0.075, 0.006, 1000.0), times(0.03, 0.012, 100.0));
        let times =
            "--time-to-first-token 15000us --prefill-time-per-token 60000ns --inter-token-latency 6000us";
        let load = |limit| flags(&short, &long, &loaded, limit).strip_prefix(times).map(str::to_owned);
        assert_eq!(load(3).as_deref(), Some(" --time-factor-under-load 2.00 --max-num-seqs 3"));
        assert_eq!(load(5).as_deref(), Some(" --time-factor-under-load 3.00 --max-num-seqs 5"));
    }

    #[test]
    fn the_size_of_the_cache_is_read_under_the_names_of_each_engine() {
        let vllm = "# TYPE vllm:cache_config_info gauge\n\
                    vllm:cache_config_info{block_size=\"32\",engine=\"0\",num_gpu_blocks=\"100\"} 1.0\n";
        assert_eq!(blocks_of(vllm), Some(200));
        let sglang = "sglang:page_size{tp_rank=\"0\"} 1.0\nsglang:num_pages{tp_rank=\"0\"} 8192.0\n";
        assert_eq!(blocks_of(sglang), Some(512));
        // An engine that has not measured its memory yet, and one without the metric.
        assert_eq!(blocks_of("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1\n"), None);
        assert_eq!(blocks_of("vllm:num_requests_running 0\n"), None);
    }
}
