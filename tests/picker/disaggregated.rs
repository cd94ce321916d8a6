//! Disaggregated prefill: the picker names the prefill engine, and the routing sidecar of the decode engine sends the request
//! there first.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    envoy::{Envoy, Port},
    http, tools,
    world::{APART, Picker, Pool, answered, turn},
};

/// A connector of the sidecar, and the arguments of the two engines.
struct Case {
    connector: &'static str,
    engines: [&'static [&'static str]; 2],
}

const NIXL: &[&str] = &["--kv-transfer-config", r#"{"kv_connector":"NixlConnector","kv_role":"kv_both"}"#];
const OFFLOADING: &[&str] =
    &["--kv-transfer-config", r#"{"kv_connector":"OffloadingConnector","kv_role":"kv_both"}"#];

const CASES: [Case; 3] = [
    Case { connector: "--kv-connector=nixlv2", engines: [NIXL, NIXL] },
    Case { connector: "--kv-connector=offloading", engines: [OFFLOADING, OFFLOADING] },
    Case {
        connector: "--kv-connector=sglang",
        engines: [&["--disaggregation-mode=decode"], &["--disaggregation-mode=prefill"]],
    },
];

#[test]
fn a_prompt_is_computed_by_the_prefill_engine_with_each_connector() {
    let Some(program) = tools::tool("bin/envoy") else { return };
    let _turn = turn();
    for Case { connector, engines } in CASES {
        let (pool, decode) = Pool::disaggregated(&[connector], engines);
        let picker = Picker::start(&pool, APART, &[]);
        let port = Port { pickers: vec![picker.address], endpoints: pool.engines.clone(), ..Port::default() };
        let envoy = Envoy::start(&program, &[port]);
        let text = json!({"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]});
        let answer = http::post(&envoy.url(0), "/v1/chat/completions", text.to_string(), false);
        assert_eq!(answer.status, 200, "{connector}: {answer:?}");
        assert_eq!(answer.json()["usage"]["completion_tokens"], Value::from(4), "{connector}: {answer:?}");
        let [prefill, decode] = [&pool.engines[1], &decode].map(|engine| answered_once(&engine.to_string()));
        assert!(prefill > 0.0 && decode > 0.0, "{connector}: prefill {prefill}, decode {decode}");
    }
}

/// Returns how many requests an engine has answered, once it has counted one. With SGLang, both engines work side by side, and the
/// prefill engine may count its part after the client has the answer.
fn answered_once(engine: &str) -> f64 {
    for _ in 0..100 {
        let count = answered(engine);
        if count > 0.0 {
            return count;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    0.0
}
