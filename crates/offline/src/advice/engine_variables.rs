//! Variables named as vLLM's, which vLLM does not read, and variables whose values it cannot use.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Container;
use longboat_api::{fields::devices, v1alpha2::LLMInferenceServiceSpec, vllm};

use super::{
    engine_flags::{API_SERVERS, for_image, is_older},
    image_devices::is_for_nvidia,
    variables::{ADDITIONAL_ARGS, is_known},
};
use crate::{
    finding::Advice,
    pods::{is_vllm, main_containers, variable, words},
};

const PREFIX: &str = "VLLM_";
const VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";

/// Variables that former versions read, without the prefix, and what replaces them.
const FORMER: [(&str, &str); 6] = [
    ("ENGINE_ITERATION_TIMEOUT_S", "remove it: nothing replaces it"),
    ("FLASH_ATTN_VERSION", "give vLLM the flag --attention-config, with flash_attn_version"),
    ("TORCH_PROFILER_DIR", "give vLLM the flag --profiler-config, with torch_profiler_dir"),
    ("USE_RAY_COMPILED_DAG", "remove it: nothing replaces it"),
    ("USE_TRITON_FLASH_ATTN", "give vLLM the flag --attention-backend"),
    ("USE_V1", "remove it: there is only this engine"),
];

pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    main_containers(spec)
        .flat_map(|(path, main)| {
            let mut all = unread(&path, main);
            all.extend(hidden_devices(&path, main));
            if is_vllm(main) {
                let refused = wrong_values(&path, main);
                all.extend(refused.map(|advice| for_image(main, advice)));
            }
            all
        })
        .collect()
}

/// GPUs of a container that a variable hides from its engine. In the container, CUDA counts them from 0, whatever their numbers on the
/// node are.
fn hidden_devices(path: &str, main: &Container) -> Option<Advice> {
    let value = variable(main, VISIBLE_DEVICES)?.value.as_deref()?;
    // References to variables and ids of devices cannot be judged here.
    let visible: BTreeSet<i64> =
        value.split(',').map(|number| number.trim().parse().ok()).collect::<Option<_>>()?;
    let (resource, count) = devices(main).find(|(name, _)| name.starts_with("nvidia.com/"))?;
    let has_all = (0..count).all(|number| visible.contains(&number));
    (!has_all).then(|| {
        Advice::warning(
            format!("{path}.env[name={VISIBLE_DEVICES}]"),
            "DevicesHidden",
            format!(
                "is `{value}`, and the container gets {count} of {resource}, which are numbered from 0 in it: the engine does not \
                 see all of them"
            ),
            format!("remove it: {path}.resources.limits says how many GPUs the engine has"),
        )
    })
}

/// Values that vLLM does not take. It reads all variables while it starts.
fn wrong_values<'a>(path: &'a str, main: &'a Container) -> impl Iterator<Item = Advice> + 'a {
    main.env.iter().flatten().filter_map(move |variable| {
        // A reference to another variable is replaced by its value.
        let value = variable.value.as_deref().filter(|value| !value.contains("$("))?;
        let expected = vllm::variables::expected(&variable.name, value)?;
        Some(Advice::error(
            format!("{path}.env[name={}].value", variable.name),
            "VariableValue",
            format!("is `{value}`, and vLLM {} expects {expected}: it does not start", vllm::version()),
            match value.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" => "write \"1\"",
                "false" | "no" | "off" => "write \"0\"",
                _ => "correct the value, or remove the variable",
            },
        ))
    })
}

fn unread(path: &str, main: &Container) -> Vec<Advice> {
    // Another engine, or a program in the image, may read any variable.
    // So may an older vLLM.
    if is_older(main) || !is_known(main) || !words(main).any(|word| word.contains("vllm")) {
        return Vec::new();
    }
    let is_read = |name: &str| {
        vllm::variables::is_known(name)
            || vllm::newest::has_variable(name)
            || words(main).any(|word| word.contains(name))
    };
    let names = main.env.iter().flatten().map(|variable| variable.name.as_str());
    let unread = names.filter(|name| name.starts_with(PREFIX) && !is_read(name));
    // A plugin for other devices may read a name that vLLM does not know.
    let has_plugins = !main.image.as_deref().is_some_and(is_for_nvidia);
    let advice = unread.filter_map(|name| {
        let hint = replacement_of(name, has_plugins)?;
        Some(Advice::warning(
            format!("{path}.env[name={name}]"),
            "VariableNotRead",
            format!("has no effect: vLLM {} does not read {name}", vllm::version()),
            hint,
        ))
    });
    advice.collect()
}

/// What to write in place of a variable. `None` if it may be one of a plugin of vLLM for other devices.
fn replacement_of(name: &str, has_plugins: bool) -> Option<String> {
    let own = name.strip_prefix(PREFIX)?;
    // These are meant for the script, and told with it.
    if own.ends_with("_ARGS") || longboat_key::nearest([ADDITIONAL_ARGS], name).is_some() {
        return None;
    }
    if name == API_SERVERS {
        return Some(
            "the start scripts of presets with data parallel workers read it. Otherwise give vLLM the flag --api-server-count"
                .to_owned(),
        );
    }
    let older = "it is right only if the image has an older vLLM that reads it. Otherwise";
    if let Some((_, instead)) = FORMER.iter().find(|(former, _)| *former == own) {
        return Some(format!("{older} {instead}"));
    }
    let flag = format!("--{}", own.to_ascii_lowercase().replace('_', "-"));
    if vllm::flags::find(&flag).is_some_and(|(known, _)| known == flag) {
        return Some(format!("{older} give vLLM the flag {flag}"));
    }
    let meant = vllm::variables::nearest(name).map(|meant| format!("did you mean {meant}?"));
    meant.or_else(|| (!has_plugins).then(|| "correct the name, or remove the variable".to_owned()))
}

#[cfg(test)]
mod tests {
    use longboat_api::vllm;

    use super::{FORMER, PREFIX, replacement_of};
    use crate::advice::tests::{finding_lines, service};

    #[test]
    fn former_variables_are_gone_and_the_flags_that_replace_them_are_there() {
        for (former, instead) in FORMER {
            assert!(!vllm::variables::is_known(&format!("{PREFIX}{former}")), "{former}");
            for flag in instead.split([' ', ',']).filter(|word| word.starts_with("--")) {
                assert_eq!(vllm::flags::find(flag).map(|(name, _)| name), Some(flag), "{former}");
            }
        }
    }

    #[test]
    fn flags_misspelt_names_and_names_of_plugins_are_told_apart() {
        let told = |name: &str| replacement_of(&format!("{PREFIX}{name}"), true);
        let flag = told("ALL2ALL_BACKEND").unwrap();
        assert!(flag.ends_with("Otherwise give vLLM the flag --all2all-backend"), "{flag}");
        assert!(told("USE_V1").unwrap().ends_with("Otherwise remove it: there is only this engine"));
        assert_eq!(told("LOGING_LEVEL").as_deref(), Some("did you mean VLLM_LOGGING_LEVEL?"));
        for plugins in ["SPYRE_USE_CB", "DT_CHUNK_LEN", "ADITIONAL_ARGS"] {
            assert_eq!(told(plugins), None, "{plugins}");
        }
        for unknown in ["USE_V2", "ATTENTION_BACKENDS"] {
            let unknown = &format!("{PREFIX}{unknown}");
            assert!(replacement_of(unknown, false).is_some_and(|hint| hint.starts_with("correct the name")));
        }
    }

    #[test]
    fn a_variable_that_hides_gpus_of_the_container_is_warned_about() {
        let found = |value: &str, limits: &str| {
            finding_lines(&service(
                "s",
                &format!(
                    "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      env: [{{name: CUDA_VISIBLE_DEVICES, \
                     value: '{value}'}}]\n      resources: {{limits: {{{limits}}}}}\n"
                ),
            ))
        };
        let [warning] = &found("2,3", "nvidia.com/gpu: 2")[..] else { panic!("one warning") };
        let expected = "warning spec.template.containers[0].env[0]: is `2,3`, and the container gets 2 of nvidia.com/gpu, which are \
                        numbered from 0 in it: the engine does not see all of them (remove it: \
                        spec.template.containers[name=main].resources.limits says how many GPUs the engine has)";
        assert_eq!(warning.split_once(' ').unwrap().1, expected);
        for (value, limits) in [
            ("1,0", "nvidia.com/gpu: 2"),
            ("2,3", "cpu: 2"),
            ("$(GPUS)", "nvidia.com/gpu: 2"),
            ("GPU-1a", "nvidia.com/gpu: 2"),
        ] {
            assert_eq!(found(value, limits), [""; 0], "{value} {limits}");
        }
    }

    #[test]
    fn values_that_vllm_refuses_are_errors() {
        let version = vllm::version();
        let found = |name: &str, value: &str| {
            finding_lines(&service(
                "s",
                &format!(
                    "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      env: [{{name: VLLM_{name}, value: '{value}'}}]\n"
                ),
            ))
        };
        for (name, value, rest) in [
            ("USE_DEEP_GEMM", "true", "expects a whole number: it does not start (write \"1\")"),
            (
                "LOG_STATS_INTERVAL",
                "5s",
                "expects a number: it does not start (correct the value, or remove the variable)",
            ),
            (
                "WORKER_MULTIPROC_METHOD",
                "thread",
                "expects one of \"fork\", \"spawn\": it does not start (correct the value, or remove the variable)",
            ),
        ] {
            let found = found(name, value).pop().unwrap();
            let path = "error spec.template.containers[0].env[0].value";
            let message = format!("{path}: is `{value}`, and vLLM {version} {rest}");
            assert_eq!(found.split_once(' ').unwrap().1, message);
        }
        for (name, value) in
            [("USE_DEEP_GEMM", "0"), ("WORKER_MULTIPROC_METHOD", "spawn"), ("HOST_IP", "$(IP)")]
        {
            assert_eq!(found(name, value), [""; 0], "{name}");
        }
    }

    #[test]
    fn variables_that_vllm_does_not_read_are_warned_about() {
        let lines = |name: &str, main: &str| {
            format!(
                "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      {main}\n      env: [{{name: VLLM_{name}, value: '1'}}]\n"
            )
        };
        let text = |name: &str, main: &str| finding_lines(&service("s", &lines(name, main)));
        let older = "it is right only if the image has an older vLLM that reads it. Otherwise";
        for (name, hint) in [
            ("USE_V1", format!("{older} remove it: there is only this engine")),
            ("MAX_MODEL_LEN", format!("{older} give vLLM the flag --max-model-len")),
            ("LOGING_LEVEL", "did you mean VLLM_LOGGING_LEVEL?".to_owned()),
        ] {
            let version = vllm::version();
            assert_eq!(
                text(name, "image: a/b:1"),
                [format!(
                    "10:13 warning spec.template.containers[0].env[0]: has no effect: vLLM {version} does not read VLLM_{name} ({hint})"
                )]
            );
        }
        // The script reads it; another program may.
        let name = "MAX_MODEL_LEN";
        let script = format!(
            "command: [/bin/bash, -c, 'vllm serve /mnt/models --served-model-name s --max-model-len $VLLM_{name}']"
        );
        for main in [&script, "command: [/app/start]"] {
            assert_eq!(text(name, main), Vec::<String>::new(), "{main}");
        }
    }
}
