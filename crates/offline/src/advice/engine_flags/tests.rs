//! What is said about arguments of vLLM, and about which ones nothing is said.

use crate::advice::tests;

pub(super) const PRESET: &str = "spec.template.containers[0]";

/// Returns the findings about a service whose container main has these fields, as `severity path: message (hint)`.
pub(super) fn finding_lines(fields: &str) -> Vec<String> {
    about(&format!(
        "  model: {{uri: 'hf://a/b', name: m}}\n  template:\n    containers:\n    - name: main\n      {fields}\n"
    ))
}

pub(super) fn about(spec: &str) -> Vec<String> {
    let found = tests::finding_lines(&tests::service("one", spec)).into_iter();
    // Without the line and the column.
    found.map(|found| found.split_once(' ').unwrap().1.to_owned()).collect()
}

/// Asserts that arguments of a preset cause one finding, which begins and ends like this.
fn assert_one(args: &str, severity: &str, message: &str, hint: &str) {
    let found = finding_lines(&format!("args: {args}"));
    let begin = format!("{severity} {PRESET}.args[0]: {message}");
    let is_it = |found: &String| found.starts_with(&begin) && found.ends_with(&format!("({hint})"));
    assert!(found.len() == 1 && found.iter().all(is_it), "{args}: {found:#?}\nexpected {begin} … ({hint})");
}

#[test]
fn values_that_vllm_refuses_are_errors() {
    let plain = "correct the value, or remove the flag";
    for (args, message, hint) in [
        (
            "[--gpu-memory-utilization, '90']",
            "gives --gpu-memory-utilization the value 90, and vLLM 0.32.0 expects a number above 0 and at most 1: it does not start",
            "if it is a share in percent, write `0.9`",
        ),
        (
            "[--gpu-memory-utilization, '0']",
            "gives --gpu-memory-utilization the value 0, and vLLM 0.32.0 expects a number above 0 and at most 1",
            plain,
        ),
        (
            "['--gpu-memory-utilization=0,9']",
            "gives --gpu-memory-utilization the value 0,9, and vLLM 0.32.0 expects a number: it",
            "write a point: `0.9`",
        ),
        (
            "[--max-num-seqs, '0']",
            "gives --max-num-seqs the value 0, and vLLM 0.32.0 expects a number at least 1",
            plain,
        ),
        ("[--seed, abc]", "gives --seed the value abc, and vLLM 0.32.0 expects a whole number", plain),
        (
            "['--max-model-len=4096,--dtype=half']",
            "gives --max-model-len the value 4096,--dtype=half, and vLLM 0.32.0 expects a whole number, one with a unit (4k, 4K), or auto",
            "write a space between arguments, and no comma",
        ),
        ("[--max-model-len, 4.5K]", "gives --max-model-len the value 4.5K", plain),
        (
            "[--speculative-config, eagle]",
            "gives --speculative-config the value eagle, and vLLM 0.32.0 expects a JSON object",
            "write JSON in single quotes: `'{\"key\": \"value\"}'`",
        ),
        (
            "[--hf-overrides, '{']",
            "gives --hf-overrides the value {, and vLLM 0.32.0 expects a JSON object",
            "write JSON in single quotes: `'{\"key\": \"value\"}'`",
        ),
        (
            "[--cpu-offload-gb, '-1']",
            "gives --cpu-offload-gb the value -1, and vLLM 0.32.0 expects a number at least 0: it",
            plain,
        ),
        (
            "[--block-size, '0']",
            "gives --block-size the value 0, and vLLM 0.32.0 expects a number above 0: it",
            plain,
        ),
        (
            "[\"--speculative-config '{\\\"num_speculative_tokens\\\": 0}'\"]",
            "gives the field `num_speculative_tokens` of --speculative-config the value 0, and vLLM 0.32.0 expects a whole number above 0: it",
            "correct the value, or remove the field",
        ),
        (
            "[\"--kv-transfer-config '{\\\"kv_connector\\\": \\\"NixlConnector\\\"}'\"]",
            "gives --kv-transfer-config a connector without the field `kv_role`: vLLM 0.32.0 does not start",
            "add \"kv_role\": \"kv_both\", \"kv_producer\" or \"kv_consumer\"",
        ),
        (
            "['--compilation-config.cudagraph_capture_sizes+=1,two']",
            "gives the field `cudagraph_capture_sizes.1` of --compilation-config the value \"two\", and vLLM 0.32.0 expects a whole number",
            "correct the value, or remove the field",
        ),
        (
            "[--additional-config, '3']",
            "gives --additional-config the value 3, and vLLM",
            "write JSON in single quotes: `'{\"key\": \"value\"}'`",
        ),
        (
            "[--enforce-eager, 'true']",
            "gives --enforce-eager the value true, and vLLM 0.32.0 takes none",
            "write --enforce-eager alone",
        ),
        (
            "[--enable-chunked-prefill, 'false']",
            "gives --enable-chunked-prefill the value false, and vLLM 0.32.0 takes none",
            "write --no-enable-chunked-prefill alone",
        ),
        (
            "['--enable-prefix-caching=False']",
            "gives --enable-prefix-caching the value False",
            "write --no-enable-prefix-caching alone",
        ),
        (
            "[--max-model-len]",
            "has --max-model-len without a value, and vLLM 0.32.0 expects",
            "add the value, or remove the flag",
        ),
        (
            "[--max-model-len, --enforce-eager]",
            "has --max-model-len without a value",
            "add the value, or remove the flag",
        ),
        (
            "[--enable-auto-tool-choice]",
            "has --enable-auto-tool-choice, with which vLLM needs --tool-call-parser",
            "add --tool-call-parser with the parser of the model's family",
        ),
        (
            "['\u{2014}max-model-len 4096']",
            "has `\u{2014}max-model-len 4096`, which is neither a flag nor the value of one",
            "it begins with a dash that is no hyphen: write `--` before the name of a flag",
        ),
        (
            "['vllm serve Qwen/Qwen3 --max-model-len 4096']",
            "has `vllm serve Qwen/Qwen3`, which",
            "write flags only: the start script of the preset runs vllm serve with the model",
        ),
    ] {
        assert_one(args, "error", message, hint);
    }
}

#[test]
fn choices_that_this_version_lacks_and_a_second_model_are_warnings() {
    for (args, message, hint) in [
        (
            "[--model, Qwen/Qwen3-8B]",
            "has --model, although the model stands after `vllm serve`: ",
            "remove the flag: spec.model.uri says which model is served",
        ),
        (
            "[--dtype, fp16]",
            "gives --dtype the value fp16, which vLLM 0.32.0 does not know: it takes one of auto, bfloat16, ",
            "take one of these, or make sure that the version in the image knows it",
        ),
        (
            "[--kv-cache-dtype, fp8_e9]",
            "gives --kv-cache-dtype the value fp8_e9",
            "did you mean `fp8`? Otherwise make sure that the version in the image knows it",
        ),
        (
            "[--uvicorn-log-level, warn]",
            "gives --uvicorn-log-level the value warn",
            "take one of these, or make sure that the version in the image knows it",
        ),
        (
            "[--max-lora-rank, '7']",
            "gives --max-lora-rank the value 7, which vLLM 0.32.0 does not know: it takes one of 1, 8, 16",
            "take one of these, or make sure that the version in the image knows it",
        ),
        // Names that vLLM looks up when it has parsed its flags.
        (
            "[--quantization, fp88]",
            "gives --quantization the value fp88, which vLLM 0.32.0 does not know: it takes one of ",
            "did you mean `fp8`? Otherwise make sure that the version in the image knows it",
        ),
        (
            "[--load-format, safetensor]",
            "gives --load-format the value safetensor",
            "did you mean `safetensors`? Otherwise make sure that the version in the image knows it",
        ),
        (
            "[--reasoning-parser, qwen33]",
            "gives --reasoning-parser the value qwen33",
            "did you mean `qwen3`? Otherwise make sure that the version in the image knows it",
        ),
        (
            "[--block-size, '17']",
            "gives --block-size the value 17, with which vLLM 0.32.0 finds no attention backend for GPUs: all need multiples of 16",
            "write a multiple of 16, or remove the flag: vLLM chooses a size that fits",
        ),
        (
            "[\"--compilation-config '{\\\"mod\\\": 3}'\"]",
            "gives --compilation-config the field `mod`, which vLLM 0.32.0 does not have: it does not start",
            "did you mean `mode`? Otherwise make sure that the version in the image has it",
        ),
        (
            "[\"--kv-transfer-config '{\\\"kv_role\\\": \\\"kv_prefill\\\"}'\"]",
            "gives the field `kv_role` of --kv-transfer-config the value \"kv_prefill\", which vLLM 0.32.0 does not know: it takes one of \
             \"kv_producer\", \"kv_both\", \"kv_consumer\" or null",
            "take one of these, or make sure that the version in the image knows it",
        ),
        (
            "[--kv-transfer-config.kv_role, kv_prefill]",
            "gives the field `kv_role` of --kv-transfer-config the value \"kv_prefill\", which",
            "take one of these, or make sure that the version in the image knows it",
        ),
        (
            "[\"--kv-transfer-config '{\\\"kv_role\\\": \\\"kv_both\\\", \\\"kv_connector\\\": \\\"NixlConector\\\"}'\"]",
            "gives the field `kv_connector` of --kv-transfer-config the value \"NixlConector\", which vLLM 0.32.0 does not know",
            "did you mean `NixlConnector`? Otherwise make sure that the version in the image knows it",
        ),
        (
            "[--compilation-config.cudagraph_mode, FULLL]",
            "gives the field `cudagraph_mode` of --compilation-config the value \"FULLL\", which vLLM 0.32.0 does not know: it takes one of",
            "take one of these, or make sure that the version in the image knows it",
        ),
        (
            "[-O, '9']",
            "gives -O the value 9, which vLLM 0.32.0 does not know: it takes one of 0, 1, 2, 3",
            "take one of these, or make sure that the version in the image knows it",
        ),
    ] {
        assert_one(args, "warning", message, hint);
    }
}

#[test]
fn names_that_others_register_are_not_judged() {
    for args in [
        "[--reasoning-parser, mine, --reasoning-parser-plugin, /mnt/mine.py]",
        "[--enable-auto-tool-choice, --tool-parser-plugin, /mnt/mine.py, --tool-call-parser, mine]",
        "[--distributed-executor-backend, my.module.Executor]",
        "[--attention-backend, flash_attn]",
        "[--block-size, '1']",
        "[\"--hf-overrides '{\\\"any\\\": 3}'\"]",
    ] {
        assert_eq!(finding_lines(&format!("args: {args}")), [""; 0], "{args}");
    }
}

#[test]
fn flags_that_this_version_lacks_are_warnings_that_say_what_former_ones_became() {
    let former = "former versions had it, so it is right only if the image has one of them. Otherwise ";
    for (args, flag, hint) in [
        (
            "[--foobar, '3']",
            "--foobar",
            "remove it, unless the version in the image, or a plug-in, has it".to_owned(),
        ),
        ("[-max-model-len, '3']", "-max-model-len", "did you mean `--max-model-len`?".to_owned()),
        (
            "[--swap-space, '4']",
            "--swap-space",
            format!("{former}remove it: vLLM no longer swaps its KV cache"),
        ),
        (
            "[--disable-log-requests]",
            "--disable-log-requests",
            format!("{former}remove it: vLLM does not log requests, unless --enable-log-requests is given"),
        ),
        (
            "[--task, embed]",
            "--task",
            format!("{former}write --runner, and --convert for the kind of pooling"),
        ),
    ] {
        let message = format!(
            "has {flag}, which is no flag of vLLM 0.32.0: vLLM does not start with flags that it does not know"
        );
        assert_one(args, "warning", &message, &hint);
    }
    // It would be a shortened --device-ids.
    let found = finding_lines("args: [--device, cuda]");
    assert!(found[0].contains("has --device, which is no flag") && found.len() == 1, "{found:#?}");
}

#[test]
fn json_that_loses_its_quotes_is_an_error_with_what_vllm_gets() {
    let json = "{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_both\"}";
    let message = format!(
        "has JSON that the shell of the start script evaluates: vLLM gets `kv_connector:NixlConnector kv_role:kv_both` in \
         place of `{json}`, and does not start"
    );
    let hint = format!("put single quotes around it, inside of the value: `'{json}'`");
    assert_eq!(
        finding_lines(&format!("args: ['--kv-transfer-config', '{json}']")),
        [format!("error {PRESET}.args[1]: {message} ({hint})")]
    );
    assert_eq!(
        finding_lines(&format!(
            "env: [{{name: VLLM_ADDITIONAL_ARGS, value: '--kv-transfer-config={json}'}}]"
        )),
        [format!("error {PRESET}.env[0].value: {message} ({hint})")]
    );
    // A command without a shell gets it as it is.
    for fields in [
        format!("args: ['--kv-transfer-config', '''{json}''']"),
        format!(
            "command: [vllm, serve, /mnt/models, --served-model-name, m]\n      args: ['--kv-transfer-config', '{json}']"
        ),
    ] {
        assert_eq!(finding_lines(&fields), [""; 0], "{fields}");
    }
}

#[test]
fn characters_of_the_shell_in_arguments_are_named() {
    let shell = "without quotes: the shell of the start script evaluates arguments, and";
    let hint = "put single quotes around the value, inside of the argument: `'…'`";
    assert_eq!(
        finding_lines("args: ['--chat-template','Hello (x) $HOME | y']")[0],
        format!("error {PRESET}.args[1]: has `(` {shell} fails ({hint})")
    );
    assert_one(
        "['--api-key=a&b']",
        "warning",
        &format!("has `&` {shell} vLLM gets none from there on as they are written"),
        hint,
    );
    assert_one(
        "['--api-key=it''s']",
        "error",
        "has a quote (') without its end",
        "close the quote, or write a backslash before it",
    );
    let lost = finding_lines(
        "env:\n      - name: VLLM_ADDITIONAL_ARGS\n        value: |\n          --seed 1\n          --dtype half",
    );
    assert!(
        lost.len() == 1 && lost[0].contains("does not pass what follows to vLLM: `--dtype half`"),
        "{lost:#?}"
    );
}

#[test]
fn flags_in_a_command_of_ones_own_are_checked_too() {
    for fields in [
        "command: [vllm, serve, m, --max-num-seqs, '0']",
        "command: [/bin/bash, -c, 'exec vllm serve m --max-num-seqs 0 \"$@\"', --]",
        "command: [/bin/bash, -c, 'exec vllm serve m \"$@\"', --]\n      args: [--max-num-seqs, '0']",
    ] {
        let found = finding_lines(fields);
        assert!(
            found.len() == 1 && found[0].contains("gives --max-num-seqs the value 0"),
            "{fields}: {found:#?}"
        );
    }
}

#[test]
fn arguments_that_vllm_takes_cause_no_word() {
    for args in [
        "[--max-num-batched-tokens, 0.5k]",
        "[--max-model-len, 16k, --max-num-batched-tokens, '8_192', --gpu-memory-utilization, '.9', --seed, '-1']",
        "['--max-model-len=auto --trust-remote-code --no-enable-prefix-caching -O3 -tp 1']",
        "[--api-key, a, b, --chat-template, \"'Hello (x) | y'\", --cudagraph-capture-sizes, '1', '2']",
        "['--hf-overrides.a.b', '1', '--kv-transfer-config.kv_role', kv_both, --hf-token, --enforce-eager]",
        "[--enable-auto-tool-choice, --tool-call-parser, hermes, --quantization, None]",
        "[\"--limit-mm-per-prompt '{\\\"image\\\": 2}'\", --override-generation-config, \"'{\\\"top_k\\\":1}'\"]",
        "[--served-model-name, m, --max-num-seqs, $MAX, $MORE, word]",
    ] {
        let variables = "env: [{name: MAX, value: '2'}, {name: MORE, value: --enforce-eager}]";
        assert_eq!(finding_lines(&format!("args: {args}\n      {variables}")), [""; 0], "{args}");
    }
}

#[test]
fn a_variable_that_nothing_sets_is_warned_about() {
    assert_one(
        "['--max-model-len=$LENGTH']",
        "warning",
        "has the variable LENGTH, which spec.template.containers[name=main].env does not set: vLLM gets nothing in its place",
        "set it there, unless the image does, or write the value",
    );
    for set in ["env: [{name: LENGTH, value: '1'}]", "envFrom: [{configMapRef: {name: all}}]"] {
        assert_eq!(
            finding_lines(&format!("args: [--max-model-len, '$(LENGTH)']\n      {set}")),
            [""; 0],
            "{set}"
        );
    }
}

#[test]
fn json_is_parsed_to_its_end() {
    for (args, hint) in [
        ("[--kv-transfer-config, \"'{\\\"kv_role\\\":\\\"kv_both\\\"'\"]", "EOF while parsing an object"),
        ("[--kv-transfer-config, \"'{\\\"kv_role\\\":\\\"kv_both\\\",}'\"]", "trailing comma"),
    ] {
        let found = finding_lines(&format!("args: {args}"));
        assert!(found.len() == 1 && found[0].contains(&format!("correct the JSON: {hint}")), "{found:#?}");
    }
    assert_eq!(finding_lines("args: [--limit-mm-per-prompt, \"'{\\\"image\\\": 1k}'\"]"), [""; 0]);
}

#[test]
fn commands_and_probes_that_cannot_work_are_named() {
    for (fields, expected) in [
        (
            "command: [vllm serve m]",
            "error spec.template.containers[0].command[0]: is \"vllm serve m\", and no program has this",
        ),
        (
            "command: [sh, vllm serve m]",
            "error spec.template.containers[0].command[1]: is no file that sh could run",
        ),
        (
            "readinessProbe: {httpGet: {path: /health, port: 9999}}",
            "warning spec.template.containers[0].readinessProbe.httpGet.port: is 9999, which is not among the ports of container main \
             (8000",
        ),
        (
            "startupProbe: {httpGet: {path: /health, port: web}}",
            "warning spec.template.containers[0].startupProbe.httpGet.port: is web, which is not among the ports of container main",
        ),
    ] {
        let found = finding_lines(fields);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{fields}: {found:#?}");
    }
    let sidecar = "\n    initContainers: [{name: front, image: a/b, restartPolicy: Always, ports: [{containerPort: 9999}]}]";
    assert_eq!(
        finding_lines(&format!("readinessProbe: {{httpGet: {{path: /health, port: 9999}}}}{sidecar}")),
        [""; 0]
    );
}

#[test]
fn scripts_are_found_behind_the_options_of_their_shell() {
    for options in ["-c", "-euo, pipefail, -c", "--norc, -c", "-euc"] {
        let found = finding_lines(&format!("command: [bash, {options}, 'vllm serve m --port=9000']"));
        assert!(found.len() == 1 && found[0].contains("listen on port 9000"), "{options}: {found:#?}");
    }
}

#[test]
fn arithmetic_of_the_shell_is_no_mistake() {
    assert_eq!(finding_lines("args: ['--max-model-len=$((4 * 1024))', --seed, '1']"), [""; 0]);
}

#[test]
fn a_rank_of_adapters_that_vllm_does_not_have_is_warned_about() {
    let with = |rank: i32| {
        about(&format!(
            "  model: {{uri: 'hf://a/b', name: m, lora: {{maxRank: {rank}, adapters: [{{name: x, uri: 'hf://a/x'}}]}}}}\n"
        ))
    };
    assert_eq!(
        with(12),
        [
            "warning spec.model.lora.maxRank: is 12, and --max-lora-rank of vLLM 0.32.0 takes one of 1, 8, 16, 32, 64, 128, 256, \
          320, 512: no pod becomes ready (write 16, with which adapters of rank 12 fit)"
        ]
    );
    assert_eq!(with(16), [""; 0]);
}

#[test]
fn a_misspelt_variable_for_arguments_is_warned_about() {
    let with = |command: &str, name: &str| {
        finding_lines(&format!("{command}env: [{{name: {name}, value: --seed=1}}]"))
    };
    // Another test finds whole names that vLLM does not know.
    let wrong = |end: &str| format!("{}_{end}", "VLLM");
    for end in ["ADITIONAL_ARGS", "EXTRA_ARGS"] {
        assert_eq!(
            with("", &wrong(end)),
            [format!(
                "warning {PRESET}.env[0]: has no effect: nothing reads it (did you mean VLLM_ADDITIONAL_ARGS?)"
            )]
        );
    }
    assert_eq!(with("", "VLLM_LOGGING_LEVEL"), [""; 0]);
    let own = wrong("EXTRA_ARGS");
    assert_eq!(with(&format!("command: [bash, -c, 'vllm serve m ${own}']\n      "), &own), [""; 0]);
}

#[test]
fn a_key_of_many_dots_does_not_overflow_the_stack() {
    let keys = ".a".repeat(500_000);
    assert_eq!(finding_lines(&format!("args: ['--hf-overrides{keys}', '1']")), [""; 0]);
}
