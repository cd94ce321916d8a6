//! Flags that former versions of vLLM had.

/// The flags, and what replaces them.
fn former() -> impl Iterator<Item = (&'static str, &'static str)> {
    include_str!("former_flags.txt").lines().filter_map(|line| line.split_once(": "))
}

/// Returns what replaces a flag.
pub(super) fn replacement(flag: &str) -> Option<&'static str> {
    let flag = flag.split(['=', '.']).next()?.replace('_', "-");
    former().find(|(former, _)| *former == flag).map(|(_, instead)| instead)
}

#[cfg(test)]
mod tests {
    use longboat_api::vllm;

    use super::former;

    #[test]
    fn former_flags_are_gone_and_what_replaces_them_is_there() {
        for (former, instead) in former() {
            let known = vllm::flags::find(former).map(|(name, _)| name);
            assert_ne!(known, Some(former));
            for flag in instead.split([' ', ',', ':']).filter(|word| word.starts_with("--")) {
                assert_eq!(vllm::flags::find(flag).map(|(name, _)| name), Some(flag), "{former}");
            }
        }
    }
}
