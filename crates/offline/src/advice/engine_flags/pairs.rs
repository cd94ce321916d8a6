//! Flags whose values are right alone, and with which vLLM does not start together.

use longboat_api::vllm;

use super::uses::{FlagUse, Uses};
use crate::finding::Advice;

/// Numbers of which the first must not be less than the second plus a number, with the default of the second.
const AT_LEAST: [(&str, &str, Option<i64>, i64); 5] = [
    ("--max-num-batched-tokens", "--max-num-seqs", None, 0),
    ("--max-cpu-loras", "--max-loras", Some(1), 0),
    ("--data-parallel-size", "--data-parallel-size-local", None, 0),
    // Ranks count from 0.
    ("--data-parallel-size", "--data-parallel-rank", None, 1),
    ("--data-parallel-size", "--data-parallel-start-rank", None, 1),
];

/// Flags that need another one, and what to do without it. With `--nnodes`, vLLM computes the numbers of ranks.
const NEEDED: [(&str, &str, &str); 3] = [
    (
        "--lora-modules",
        "--enable-lora",
        "add --enable-lora, or name the adapters in spec.model.lora, which adds both",
    ),
    (
        "--data-parallel-hybrid-lb",
        "--data-parallel-size-local",
        "add --data-parallel-size-local with the number of ranks of this pod",
    ),
    (
        "--data-parallel-external-lb",
        "--data-parallel-rank",
        "add --data-parallel-rank with the rank of this pod",
    ),
];

pub(super) fn check(uses: &Uses<'_>, loads_adapters: bool) -> Vec<Advice> {
    // The flags of a file count, too.
    if uses.is_open || uses.last("--config").is_some() {
        return Vec::new();
    }
    let numbers = AT_LEAST.iter().filter_map(|(flag, other, default, more)| {
        let number = uses.last(other).map_or(*default, FlagUse::number)?;
        less(uses, flag, &format!("{other} {number}"), number.saturating_add(*more))
    });
    // With chunks, a step need not hold a whole prompt.
    let is_chunked = uses.last("--enable-chunked-prefill").is_none_or(|used| !used.name.starts_with("--no-"));
    let length = uses.last("--max-model-len").and_then(FlagUse::number).filter(|_| !is_chunked);
    let whole = length.and_then(|length| {
        less(
            uses,
            "--max-num-batched-tokens",
            &format!("--no-enable-chunked-prefill and --max-model-len {length}"),
            length,
        )
    });
    let missing = NEEDED.iter().filter_map(|(flag, needed, hint)| {
        let found = uses.last(flag).filter(|found| !found.name.starts_with("--no-"))?;
        let is_given = uses.last(needed).is_some()
            || if *needed == "--enable-lora" { loads_adapters } else { uses.last("--nnodes").is_some() };
        let message =
            format!("has {flag}, with which vLLM {} needs {needed}: it does not start", vllm::version());
        (!is_given).then(|| Advice::warning(found.word.path.clone(), "FlagMissing", message, *hint))
    });
    numbers.chain(whole).chain(missing).collect()
}

/// The number of a flag if it is less than it must be beside others.
fn less(uses: &Uses<'_>, flag: &str, others: &str, least: i64) -> Option<Advice> {
    let found = uses.last(flag)?;
    let number = found.number().filter(|number| (0..least).contains(number))?;
    Some(Advice::warning(
        found.word.path.clone(),
        "FlagValue",
        format!(
            "gives {} the value {number}, and with {others}, vLLM {} expects at least {least}: it does not start",
            found.name,
            vllm::version()
        ),
        "raise it, or lower the other one",
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::finding_lines;

    #[test]
    fn numbers_are_compared_with_each_other() {
        for (args, message) in [
            (
                "[--max-num-seqs, '256', --max-num-batched-tokens, '128']",
                "args[2]: gives --max-num-batched-tokens the value 128, and with --max-num-seqs 256, vLLM 0.32.0 expects at least 256",
            ),
            (
                "[--no-enable-chunked-prefill, --max-model-len, '4096', --max-num-batched-tokens, '2048']",
                "args[3]: gives --max-num-batched-tokens the value 2048, and with --no-enable-chunked-prefill and --max-model-len 4096, vLLM",
            ),
            (
                "[--no-enable-chunked-prefill, --max-model-len, 4K, --max-num-batched-tokens, 2k]",
                "args[3]: gives --max-num-batched-tokens the value 2000, and with --no-enable-chunked-prefill and --max-model-len 4096, vLLM",
            ),
            (
                "[--enable-lora, --max-loras, '4', --max-cpu-loras, '2']",
                "args[3]: gives --max-cpu-loras the value 2, and with --max-loras 4, vLLM 0.32.0 expects at least 4",
            ),
            (
                "[--data-parallel-rank, '4', --data-parallel-size, '4']",
                "args[2]: gives --data-parallel-size the value 4, and with --data-parallel-rank 4, vLLM 0.32.0 expects at least 5",
            ),
            (
                "[-dp, '2', -dpl, '4']",
                "args[0]: gives -dp the value 2, and with --data-parallel-size-local 4, vLLM 0.32.0 expects at least 4",
            ),
            (
                "[--lora-modules, a=/a]",
                "args[0]: has --lora-modules, with which vLLM 0.32.0 needs --enable-lora",
            ),
            (
                "[--data-parallel-hybrid-lb, -dp, '2']",
                "args[0]: has --data-parallel-hybrid-lb, with which vLLM 0.32.0 needs --data-parallel-size-local",
            ),
            (
                "[-dp, '2', --data-parallel-external-lb]",
                "args[2]: has --data-parallel-external-lb, with which vLLM 0.32.0 needs --data-parallel-rank",
            ),
        ] {
            let found = finding_lines(&format!("args: {args}"));
            assert!(found.len() == 1 && found[0].contains(message), "{args}: {found:#?}");
        }
        for args in [
            "[--max-num-seqs, '128', --max-num-batched-tokens, '128']",
            "[--max-model-len, '4096', --max-num-batched-tokens, '2048']",
            "[--max-num-batched-tokens, '64']",
            "[--enable-lora, --max-cpu-loras, '1']",
            "[--data-parallel-rank, '3', --data-parallel-size, '4', --data-parallel-size-local, '1']",
            "[--enable-lora, --lora-modules, a=/a]",
            "[--data-parallel-hybrid-lb, -dp, '2', -dpl, '1', --no-data-parallel-external-lb]",
            "[--data-parallel-external-lb, -dp, '2', --nnodes, '2']",
        ] {
            assert_eq!(finding_lines(&format!("args: {args}")), [""; 0], "{args}");
        }
    }
}
