//! A service of one vLLM under `up`, with an adapter: what clients, `why`, `doctor` and conditions say is what the engine says.

use std::{collections::BTreeMap, fs, thread};

use serde_json::{Value, json};

use crate::{
    clients, dashboard,
    http::{self, Answer, block},
    install::Install,
    wait::until,
    world::{Engine, MODEL, World, service, template},
};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
const ADAPTER: &str = "ada";

#[test]
fn a_service_answers_and_is_explained_as_its_engine_says() {
    let Some(install) = block(Install::find()) else { return };
    let model = install.folder("small").display().to_string();
    let adapters = json!({"adapters": [{"name": ADAPTER, "uri": format!("pvc://adapters/{ADAPTER}")}]});
    let pod = template(&install, "--max-model-len 4096 --enable-auto-tool-choice --tool-call-parser hermes");
    let mut manifest = service("one", &model, &[("template", pod)]);
    manifest["spec"]["model"]["lora"] = adapters;
    let world = World::start("one", &install.program(), &manifest, |state| {
        // The folder of a claim exists before the claim does.
        let claim = state.join("claims/default/adapters").join(ADAPTER);
        fs::create_dir_all(&claim).unwrap();
        for file in ["adapter_config.json", "adapter_model.safetensors"] {
            fs::copy(install.folder("adapter").join(file), claim.join(file)).unwrap();
        }
    });
    let engine = world.engine("both");

    let proof = world.says("ServingProven", "True", "TokenReceived");
    assert!(proof.ends_with(&format!("/v1/completions answered with a token of model {MODEL}")), "{proof}");
    assert_eq!(world.verb("doctor", &["-n", "default"]), json!([]), "nothing is wrong");
    answers(&world, &engine);
    explanations(&world, &engine);
    clients::answer(&install, &world);
    clients::that_go_away_free_their_place(&world, &[&engine]);
    dashboard::shows(&world, &engine);
    streams_end_after_a_pod_was_told_to(&world, &engine);
}

/// Requests to each of which gateway and engine answer alike. A chat without messages is not here: the picker refuses it in other words.
fn requests() -> Vec<(&'static str, Value)> {
    let say = |text: &str| json!([{"role": "user", "content": text}]);
    let weather = json!([{"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"unit": {"enum": ["c", "f"]}}, "required": ["unit"], "additionalProperties": false}}}]);
    let call = json!({"type": "function", "function": {"name": "weather"}});
    let shape =
        json!({"type": "json_schema", "json_schema": {"name": "a", "schema": {"enum": ["yes", "no"]}}});
    let long = "salt ".repeat(700);
    vec![
        (CHAT, json!({"messages": say("Why is the sea salty?"), "max_tokens": 12})),
        (CHAT, json!({"messages": say(&long), "max_tokens": 3, "logprobs": true, "top_logprobs": 2})),
        (CHAT, json!({"messages": say("Rain?"), "max_tokens": 40, "tools": weather, "tool_choice": call})),
        (
            CHAT,
            json!({"messages": say("Rain?"), "max_tokens": 40, "tools": weather, "tool_choice": "required"}),
        ),
        (CHAT, json!({"messages": say("Rain?"), "max_tokens": 20, "tools": weather, "tool_choice": "auto"})),
        (CHAT, json!({"messages": say("Rain?"), "max_tokens": 20, "tools": weather, "tool_choice": "none"})),
        (
            CHAT,
            json!({"messages": say("Rain?"), "max_tokens": 20, "tools": weather, "tool_choice": "nothing"}),
        ),
        (CHAT, json!({"messages": say("Rain?"), "max_tokens": 20, "tool_choice": "required"})),
        (CHAT, json!({"messages": say("Rain?"), "max_tokens": 20, "response_format": shape})),
        (CHAT, json!({"messages": say("Hello"), "model": ADAPTER, "max_tokens": 12})),
        (COMPLETIONS, json!({"prompt": "The wind", "max_tokens": 12, "logprobs": 2})),
        (COMPLETIONS, json!({"prompt": "The wind", "model": ADAPTER, "max_tokens": 12, "logprobs": 2})),
        (COMPLETIONS, json!({"prompt": ["The wind", "The rain"], "max_tokens": 4, "echo": true})),
        (COMPLETIONS, json!({"prompt": "The wind", "max_tokens": 12, "stop": [" "]})),
        (COMPLETIONS, json!({"prompt": "salt ".repeat(5000), "max_tokens": 1})),
        (COMPLETIONS, json!({"prompt": "The wind", "max_tokens": 5000})),
        (COMPLETIONS, json!({"prompt": "The wind", "top_p": 2})),
        (COMPLETIONS, json!({"prompt": "The wind", "max_tokens": "many"})),
        (CHAT, json!({"messages": [{"role": "wizard"}]})),
    ]
}

/// What an answer says: without ids and times, which are others each time, and of a stream what its events add up to, because
/// vLLM puts several tokens into one event if it is slow.
fn said(answer: &Answer) -> Value {
    let mut events: Vec<&str> = answer.body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    if events.is_empty() {
        let mut body = answer.json();
        if let Some(fields) = body.as_object_mut() {
            fields.retain(|name, _| !["id", "created"].contains(&name.as_str()));
        }
        for call in body
            .pointer_mut("/choices/0/message/tool_calls")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            call["id"].take();
        }
        return json!([answer.status, body]);
    }
    let end = events.pop();
    let (mut choices, mut usage) = (BTreeMap::<u64, Choice>::new(), Value::Null);
    for event in events {
        let event: Value = serde_json::from_str(event).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
        for choice in event["choices"].as_array().into_iter().flatten() {
            choices.entry(choice["index"].as_u64().unwrap()).or_default().add(choice);
        }
        usage = if event["error"].is_null() { event["usage"].clone() } else { event };
    }
    let choices: Vec<Value> =
        choices.into_values().map(|choice| json!([choice.text, choice.tokens, choice.end])).collect();
    json!([answer.status, choices, usage, end])
}

/// What the events of one choice add up to.
#[derive(Default)]
struct Choice {
    text: String,
    /// The tokens and their log probabilities, if the request asked for them.
    tokens: BTreeMap<String, Vec<Value>>,
    end: Value,
}

impl Choice {
    fn add(&mut self, choice: &Value) {
        for part in [
            "/text",
            "/delta/content",
            "/delta/tool_calls/0/function/name",
            "/delta/tool_calls/0/function/arguments",
        ] {
            self.text += choice.pointer(part).and_then(Value::as_str).unwrap_or_default();
        }
        let parts = choice["logprobs"].as_object().into_iter().flatten();
        for (part, values) in parts.filter(|(part, _)| *part != "text_offset") {
            let all = self.tokens.entry(part.clone()).or_default();
            all.extend(values.as_array().cloned().unwrap_or_default());
        }
        if !choice["finish_reason"].is_null() {
            self.end = json!([choice["finish_reason"], choice["stop_reason"]]);
        }
    }
}

fn answers(world: &World, engine: &Engine) {
    let mut statuses = Vec::new();
    for (number, (path, request)) in requests().into_iter().enumerate() {
        for is_stream in [false, true] {
            let ask = |side: &str, post: &dyn Fn(&str, &Value) -> Answer| {
                let mut body = json!({"model": MODEL, "temperature": 0, "stream": is_stream,
                    // Nothing is cached, so both compute the same.
                    "cache_salt": format!("{side}{number}{is_stream}")});
                body.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
                if is_stream {
                    body["stream_options"] = json!({"include_usage": true});
                }
                post(path, &body)
            };
            let through = ask("gateway", &|path, body| world.post(path, body));
            let direct = ask("engine", &|path, body| engine.post(path, body));
            assert_eq!(said(&through), said(&direct), "{path} {request}");
            statuses.push(direct.status);
        }
    }
    // The picker refuses this before an engine sees it.
    let refusals = [world.post(CHAT, &json!({"model": MODEL})), engine.post(CHAT, &json!({"model": MODEL}))];
    let [ours, theirs] = refusals.map(|refusal| {
        let error = refusal.json()["error"].take();
        json!([refusal.status, error["type"], error["code"], error["message"].is_string()])
    });
    assert_eq!(ours, theirs, "a chat without messages");
    let count = |status| statuses.iter().filter(|one| **one == status).count();
    assert!(count(200) >= 18 && count(400) >= 8, "{statuses:?}");

    let models = http::get(&format!("{}/v1/models", world.cluster.url)).json();
    let names = |models: &Value| -> Vec<Value> {
        let all = models["data"].as_array().unwrap().iter();
        all.map(|model| json!([model["id"], model["parent"], model["root"], model["max_model_len"]]))
            .collect()
    };
    assert_eq!(names(&models), names(&engine.get("/v1/models").json()));
    let probabilities = |model: &str| {
        let body =
            json!({"model": model, "prompt": "The wind", "max_tokens": 4, "temperature": 0, "logprobs": 1});
        world.post(COMPLETIONS, &body).json()["choices"][0]["logprobs"]["token_logprobs"].take()
    };
    assert_ne!(probabilities(MODEL), probabilities(ADAPTER), "the adapter changes the model");
}

fn explanations(world: &World, engine: &Engine) {
    let pod = &world.pods("both")[0];
    let address = format!("{}:8000", pod["status"]["podIP"].as_str().unwrap());
    let prompt = "A lamp in the harbour, and gulls above the boats. ".repeat(30);
    let body = json!({"model": MODEL, "prompt": prompt, "max_tokens": 5, "temperature": 0});
    for is_repeated in [false, true] {
        let hits = engine.metric("vllm:prefix_cache_hits_total", "");
        let answer = world.post(COMPLETIONS, &body);
        let usage = answer.json()["usage"].take();
        let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
        assert_eq!(cached > 0, is_repeated, "{usage}");
        let hits = engine.metric("vllm:prefix_cache_hits_total", "") - hits;
        assert!((hits - f64::from(u32::try_from(cached).unwrap())).abs() < 0.5, "{hits} {usage}");

        let id = &answer.headers["x-request-id"];
        let why = world.verb("why", &[id]);
        let response = &why[0]["response"];
        assert_eq!(why[0]["destination"], json!([address]), "{why:#}");
        for (field, expected) in [
            ("promptTokens", &usage["prompt_tokens"]),
            ("completionTokens", &usage["completion_tokens"]),
            ("cachedTokens", &usage["prompt_tokens_details"]["cached_tokens"]),
        ] {
            assert_eq!(&response[field], expected, "{field}: {why:#} {usage}");
        }
        let prefix = &why[0]["prefix"];
        assert_eq!(prefix["matched"].as_u64().unwrap() > 0, is_repeated, "{why:#}");
    }
}

/// The engine finishes what it has begun: `--shutdown-timeout` of the preset is in effect.
fn streams_end_after_a_pod_was_told_to(world: &World, engine: &Engine) {
    let body = json!({"model": MODEL, "prompt": "The tide", "max_tokens": 400, "temperature": 0,
        "ignore_eos": true, "stream": true, "stream_options": {"include_usage": true}});
    let answer = thread::scope(|scope| {
        let asking = scope.spawn(|| world.post(COMPLETIONS, &body));
        until("the request runs", || (engine.metric("vllm:num_requests_running", "") > 0.0).then_some(()));
        let pod = world.pods("both")[0]["metadata"]["name"].as_str().unwrap().to_owned();
        world.cluster.ask(&["delete", "pod", &pod, "--wait=false"]);
        asking.join().unwrap()
    });
    let said = said(&answer);
    let parts = (&said[0], &said[2]["completion_tokens"], &said[3]);
    assert_eq!(parts, (&json!(200), &json!(400), &json!("[DONE]")), "{answer:?}");
}
