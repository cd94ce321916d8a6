//! Hooks that sleep until their pod is killed.

use k8s_openapi::api::core::v1::LifecycleHandler;
use longboat_api::v1alpha2::LLMInferenceServiceSpec;

use crate::{
    finding::Advice,
    pods::{base, containers_of},
};

/// The grace period of pods that set none, in seconds.
const DEFAULT_GRACE: i64 = 30;

/// Finds `preStop` hooks that sleep as long as the grace period or longer. API servers refuse these if they use the field `sleep`.
pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let mut all = Vec::new();
    for (path, pod) in spec.server_pods() {
        // The kubelet counts the time of the hook from the beginning of the grace period.
        let grace = pod.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE);
        for (path, container) in containers_of(path, pod) {
            let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
            let Some(seconds) = hook.and_then(sleep).filter(|seconds| *seconds >= grace) else { continue };
            all.push(Advice::warning(
                format!("{path}.lifecycle.preStop.exec.command"),
                "SleepsUntilKilled",
                format!(
                    "sleeps {seconds} seconds, and the pod is killed after {grace} (terminationGracePeriodSeconds): the container \
                     gets no time to end its requests"
                ),
                format!("sleep for less, or raise terminationGracePeriodSeconds above {seconds}"),
            ));
        }
    }
    all
}

/// Returns the seconds of a command that only sleeps, by itself or in a shell.
fn sleep(hook: &LifecycleHandler) -> Option<i64> {
    let command: Vec<&str> = hook.exec.as_ref()?.command.iter().flatten().map(String::as_str).collect();
    let words: Vec<&str> = match command.as_slice() {
        [_, "-c", script] => script.split_ascii_whitespace().collect(),
        _ => command,
    };
    let [program, seconds] = words.as_slice() else { return None };
    let seconds = seconds.strip_suffix('s').unwrap_or(seconds);
    (base(program) == "sleep").then(|| seconds.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

    #[test]
    fn a_hook_that_outlasts_its_pod_is_named() {
        let with = |command: &str, grace: &str| {
            finding_lines(&service(
                "a",
                &format!(
                    "  model: {{uri: 'hf://a/b'}}\n  template:\n    {grace}\n    containers:\n    - name: main\n      lifecycle: {{preStop: {{exec: {{command: {command}}}}}}}\n"
                ),
            ))
        };
        let expected = |seconds: u32| {
            format!(
                "10:36 warning spec.template.containers[0].lifecycle.preStop.exec.command: sleeps {seconds} seconds, and the pod is \
                 killed after 60 (terminationGracePeriodSeconds): the container gets no time to end its requests (sleep for less, \
                 or raise terminationGracePeriodSeconds above {seconds})"
            )
        };
        let grace = "terminationGracePeriodSeconds: 60";
        assert_eq!(with("[sleep, '60']", grace), [expected(60)]);
        assert_eq!(with("[/bin/sh, -c, 'sleep 90s']", grace), [expected(90)]);
        assert_eq!(with("[sleep, '50']", grace), [""; 0]);
        assert_eq!(with("[/drain, '90']", grace), [""; 0]);
    }
}
