//! Two vLLM under `up`, one for prefill and one for decode, whose KV caches NIXL or a common folder transfers: their answers are those
//! of one engine.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    clients,
    http::block,
    install::{Install, check},
    processes,
    wait::within,
    world::{Engine, MODEL, START_LIMIT, World, service, template},
};

/// The metric for tokens of prompts whose caches came from elsewhere.
const HIT_TOKENS: &str = "vllm:external_prefix_cache_hits_total";
const COMPLETIONS: &str = "/v1/completions";
/// The number of prompts, of 3 to 768 words.
const PROMPTS: usize = 18;
/// Rounding differs a little if parts of a prompt are computed apart.
const TOLERANCE: f64 = 1e-3;

#[test]
fn separate_prefill_and_decode_answer_as_one_engine_does() {
    let Some(install) = block(Install::find()) else { return };
    let connector = json!({"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu"});
    let (world, prefill, decode) = start(&install, "pd", &pod(&install, &connector, ""));

    let before = transferred(&decode);
    for number in 0..PROMPTS {
        compare(&world, &prefill, number, 0);
    }
    let [tokens, bytes, failed] = [0, 1, 2].map(|part| transferred(&decode)[part] - before[part]);
    assert!(
        tokens > 2000.0 && bytes > 1e6 && failed < 0.5,
        "{tokens} tokens, {bytes} bytes, {failed} failed"
    );
    check("transfer-metrics.txt", &metrics(&decode));
    clients::that_go_away_free_their_place(&world, &[&decode, &prefill]);

    for (round, role) in ["prefill", "decode"].into_iter().enumerate() {
        kill(&world, role);
        // Without a prefill, the decode engine computes the prompt. Without a decode, nobody answers until it is back.
        within(START_LIMIT, "an answer after an engine has died", || {
            let answer = world.post(COMPLETIONS, &request(7, &format!("{role} died")));
            (answer.status == 200).then_some(())
        });
        world.engine(role);
        within(START_LIMIT, "the cache moves to and from the new engine", || {
            let before = transferred(&decode)[0];
            compare(&world, &prefill, 8, round + 1);
            (transferred(&decode)[0] > before).then_some(())
        });
    }
}

/// vLLM's connector for a folder that engines share. It finds prompts by their tokens, without the salt, and keeps only the first
/// chunk of a prompt, so chunks have to be as long as prompts: a decode engine that finds less than it expects ends.
#[test]
fn a_common_folder_carries_caches_too() {
    let Some(install) = block(Install::find()) else { return };
    let folder = TempDir::new().unwrap();
    let connector = json!({"kv_connector": "ExampleConnector", "kv_role": "kv_both",
        "kv_connector_extra_config": {"shared_storage_path": "/caches"}});
    let mut pod = pod(&install, &connector, "--max-num-batched-tokens 4096");
    pod["volumes"] = json!([{"name": "caches", "hostPath": {"path": folder.path()}}]);
    pod["containers"][0]["volumeMounts"] = json!([{"name": "caches", "mountPath": "/caches"}]);
    let (world, prefill, decode) = start(&install, "folder", &pod);
    for number in 0..PROMPTS {
        compare(&world, &prefill, number, 0);
    }
    let tokens = decode.metric(HIT_TOKENS, "");
    assert!(tokens > 2000.0, "{tokens} tokens");
}

/// The template of a pod with an engine that has a connector.
fn pod(install: &Install, connector: &Value, more: &str) -> Value {
    template(install, &format!("--max-model-len 4096 --kv-transfer-config '{connector}' {more}"))
}

/// Starts a service with an engine for prefill and one for decode, whose proof of serving has seen a transfer.
fn start(install: &Install, name: &'static str, pod: &Value) -> (World, Engine, Engine) {
    let fields = [("template", pod.clone()), ("prefill", json!({"replicas": 1, "template": pod}))];
    let manifest = service(name, &install.folder("small").display().to_string(), &fields);
    let world = World::start(name, &install.program(), &manifest, |_| {});
    let (prefill, decode) = (world.engine("prefill"), world.engine("decode"));
    let observed = world.says("KVTransferObserved", "True", "KVTransferred");
    assert!(observed.contains("vllm:external_prefix_cache_hits increased"), "{observed}");
    assert_eq!(world.verb("doctor", &["-n", "default"]), json!([]), "nothing is wrong");
    (world, prefill, decode)
}

/// A request for one of the prompts. Requests with different salts share no cached blocks.
fn request(number: usize, salt: &str) -> Value {
    let words: Vec<String> =
        (0..3_usize << (number % 9)).map(|word| format!("{:x}", (word * word + number) % 251)).collect();
    json!({"model": MODEL, "prompt": words.join(" "), "max_tokens": 12, "temperature": 0, "ignore_eos": true,
        "logprobs": 1, "cache_salt": salt, "stream": number % 2 == 1})
}

/// Compares the answer of both engines with that of one.
fn compare(world: &World, alone: &Engine, number: usize, round: usize) {
    // The one engine is asked first, when no cache has the prompt.
    let one = tokens(&alone.post(COMPLETIONS, &request(number, &format!("one {number} {round}"))).body);
    let both = tokens(&world.post(COMPLETIONS, &request(number, &format!("both {number} {round}"))).body);
    let are_equal = both.len() == 12
        && both.len() == one.len()
        && both.iter().zip(&one).all(|(both, one)| both.0 == one.0 && (both.1 - one.1).abs() < TOLERANCE);
    assert!(are_equal, "prompt {number}: {both:?}, and one engine: {one:?}");
}

/// The tokens of an answer, at once or streamed, with their log probabilities.
fn tokens(body: &str) -> Vec<(String, f64)> {
    let events: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let events = if events.is_empty() { vec![body] } else { events };
    let mut tokens = Vec::new();
    for event in events.into_iter().filter(|event| *event != "[DONE]") {
        let event: Value = serde_json::from_str(event).unwrap_or_else(|error| panic!("{error}: {body}"));
        let found = &event["choices"][0]["logprobs"];
        let texts = found["tokens"].as_array().unwrap_or_else(|| panic!("{body}")).iter();
        let values = found["token_logprobs"].as_array().unwrap().iter();
        tokens.extend(texts.zip(values).map(|(text, value)| (text.to_string(), value.as_f64().unwrap())));
    }
    tokens
}

/// The metrics that an engine has for transfers, with their types.
fn metrics(engine: &Engine) -> String {
    let page = engine.get("/metrics").body;
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let types = types.filter(|line| line.starts_with("vllm:nixl_") && !line.contains("_created "));
    let types: BTreeSet<String> = types.map(|line| format!("{line}\n")).collect();
    types.into_iter().collect()
}

/// What a decode engine has fetched: tokens and bytes, and transfers that failed.
fn transferred(decode: &Engine) -> [f64; 3] {
    [HIT_TOKENS, "vllm:nixl_bytes_transferred_sum", "vllm:nixl_num_failed_transfers_total"]
        .map(|name| decode.metric(name, ""))
}

/// Kills the engine in the pod of a role.
fn kill(world: &World, role: &str) {
    let pod = &world.pods(role)[0];
    let host = format!("--host {}", pod["status"]["podIP"].as_str().unwrap());
    let is_engine = |pid: &u32| {
        let line = processes::command_line(*pid);
        line.contains("vllm serve") && line.contains(&host)
    };
    let pid = processes::with_variable(&world.cluster.node_id()).into_iter().find(is_engine);
    processes::signal("KILL", pid.unwrap());
}
