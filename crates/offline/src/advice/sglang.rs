//! Arguments and images that SGLang's start script cannot use.

use k8s_openapi::api::core::v1::Container;
use longboat_api::{
    engine::{Engine, SGLANG, VLLM},
    v1alpha2::LLMInferenceServiceSpec,
};

use super::probe_port;
use crate::{
    finding::Advice,
    pods::{main_containers, split_words},
};

/// Flags that vLLM has and SGLang does not, and what to do instead. There are more; nobody lists SGLang's.
const OF_VLLM: [(&str, &str); 4] = [
    ("--max-model-len", "write --context-length"),
    ("--kv-transfer-config", "remove it: the presets move KV caches of SGLang if spec.prefill is set"),
    ("--lora-modules", "remove it, and name the adapters in spec.model.lora"),
    ("--max-cpu-loras", "remove it, and set spec.model.lora.maxCpuAdapters"),
];

pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let mut all = Vec::new();
    for (path, main) in main_containers(spec) {
        let Some(engine) = Engine::of_command(main) else { continue };
        all.extend(image_of_another(&path, main, engine));
        if engine.name != SGLANG.name {
            continue;
        }
        let words: Vec<_> = split_words(&path, main).collect();
        for (at, word) in &words {
            let name = word.split('=').next().unwrap_or_default().replace('_', "-");
            if let Some((flag, instead)) = OF_VLLM.iter().find(|(flag, _)| *flag == name) {
                let message = format!("has {flag}, which is a flag of vLLM: SGLang does not start with it");
                all.push(Advice::error(at.clone(), "UnknownFlag", message, (*instead).to_owned()));
            }
        }
        all.extend(other_port(main, &words));
    }
    all
}

/// An image that has another engine than the one that the command starts.
fn image_of_another(path: &str, main: &Container, engine: &Engine) -> Option<Advice> {
    let image = main.image.as_deref()?;
    let of_image = Engine::of_image(image)?;
    let both = [&VLLM, &SGLANG];
    let is_one = |name: &str| both.iter().any(|known| known.name == name);
    // The image of a company may have both in its name.
    let has_both = both.iter().all(|known| image.contains(known.label));
    if of_image.name == engine.name || !is_one(engine.name) || !is_one(of_image.name) || has_both {
        return None;
    }
    let hint = if of_image.name == SGLANG.name {
        "set spec.runtime to a runtime of SGLang, such as kserve-llm-sglang, or use an image of vLLM"
    } else {
        "use an image of SGLang, or remove spec.runtime to serve with vLLM"
    };
    Some(Advice::warning(
        format!("{path}.image"),
        "ImageOfAnotherEngine",
        format!(
            "is an image of {}, and the container starts {}: it does not start",
            of_image.name, engine.name
        ),
        hint.to_owned(),
    ))
}

/// A port at which no probe finds the server. The last one counts.
fn other_port(main: &Container, words: &[(String, &str)]) -> Option<Advice> {
    let mut given = words.iter().enumerate().filter_map(|(at, (path, word))| {
        let text = match word.strip_prefix("--port=") {
            Some(text) => text,
            None if *word == "--port" => words.get(at + 1)?.1,
            None => return None,
        };
        Some((path, text.parse::<i32>().ok()?))
    });
    let (path, port) = given.next_back()?;
    probe_port::replaced(SGLANG.name, path, port, main)
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

    fn with(runtime: &str, main: &str) -> Vec<String> {
        let pod = format!(
            "  model: {{uri: 'hf://a/b'}}\n  {runtime}\n  template:\n    containers:\n    - name: main\n      {main}\n"
        );
        finding_lines(&service("a", &pod))
    }

    const SGLANG: &str = "runtime: kserve-llm-sglang";
    const MAIN: &str = "spec.template.containers[0]";

    #[test]
    fn flags_that_only_vllm_has_are_errors_for_sglang() {
        assert_eq!(
            with(SGLANG, "args: [--max-model-len, '8192', '--lora_modules=a=b']"),
            [
                format!(
                    "10:14 error {MAIN}.args[0]: has --max-model-len, which is a flag of vLLM: SGLang does not start with it (write \
                     --context-length)"
                ),
                format!(
                    "10:39 error {MAIN}.args[2]: has --lora-modules, which is a flag of vLLM: SGLang does not start with it (remove it, \
                     and name the adapters in spec.model.lora)"
                ),
            ]
        );
        assert_eq!(with(SGLANG, "args: [--context-length, '8192']"), [""; 0]);
    }

    #[test]
    fn a_port_of_sglang_that_no_probe_uses_is_an_error() {
        let expected = format!(
            "10:14 error {MAIN}.args[0]: makes SGLang listen on port 9000, but its probes and the Service use port 8000: no pod becomes \
             ready (remove --port: the preset sets it)"
        );
        assert_eq!(with(SGLANG, "args: ['--port=9000']"), [expected]);
        assert_eq!(with(SGLANG, "args: [--port, '8000']"), [""; 0]);
    }

    #[test]
    fn an_image_of_another_engine_than_the_command_is_warned_about() {
        assert_eq!(
            with(SGLANG, "image: vllm/vllm-openai-cpu:v1"),
            [format!(
                "10:7 warning {MAIN}.image: is an image of vLLM, and the container starts SGLang: it does not start (use an image of \
                 SGLang, or remove spec.runtime to serve with vLLM)"
            )]
        );
        assert_eq!(
            with("replicas: 1", "image: lmsysorg/sglang:v0.5.14-xeon"),
            [format!(
                "10:7 warning {MAIN}.image: is an image of SGLang, and the container starts vLLM: it does not start (set spec.runtime to a \
                 runtime of SGLang, such as kserve-llm-sglang, or use an image of vLLM)"
            )]
        );
        assert_eq!(with(SGLANG, "image: lmsysorg/sglang:v0.5.14-xeon"), [""; 0]);
        assert_eq!(with(SGLANG, "image: example.com/own:1"), [""; 0]);
    }
}
