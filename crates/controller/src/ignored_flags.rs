//! Flags of the reference's manager that are accepted without an effect, so that command lines of manifests and test harnesses need no
//! change. A warning names each flag from which a user would expect an effect.

/// Flags without an effect.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Accepted for compatibility, without effect")]
pub struct IgnoredFlags {
    /// Requests per second to the API server. Requests are not limited; the API server limits them with priority and
    /// fairness.
    #[arg(long, value_name = "N")]
    kube_api_qps: Option<f64>,

    /// Burst of requests to the API server. Requests are not limited.
    #[arg(long, value_name = "N")]
    kube_api_burst: Option<i64>,
}

// === impl IgnoredFlags ===

impl IgnoredFlags {
    /// Returns warnings for the user who started the process: one sentence for each flag that would have had an effect.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let ineffective = [
            (self.kube_api_qps.is_some(), "--kube-api-qps", "Longboat does not limit its requests"),
            (self.kube_api_burst.is_some(), "--kube-api-burst", "Longboat does not limit its requests"),
        ];
        let ineffective = ineffective.into_iter().filter(|(is_set, ..)| *is_set);
        ineffective.map(|(_, flag, instead)| format!("{flag} has no effect: {instead}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::IgnoredFlags;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        ignored_flags: IgnoredFlags,
    }

    fn warnings(flags: &[&str]) -> usize {
        let line = std::iter::once("controller").chain(flags.iter().copied());
        Line::try_parse_from(line).unwrap_or_else(|error| panic!("{error}")).ignored_flags.warnings().len()
    }

    #[test]
    fn what_manifests_pass_is_accepted_and_what_does_nothing_is_said() {
        assert_eq!(warnings(&[]), 0);
        assert_eq!(warnings(&["--kube-api-qps=20", "--kube-api-burst=30"]), 2);
    }
}
