//! Kubernetes quantities of bytes: `4Mi`, `100M`, `5MiB`.

/// Reads a number of bytes; a trailing `B` is tolerated.
///
/// # Errors
/// A sentence for the user, where the text is no quantity.
pub fn parse(text: &str) -> Result<usize, String> {
    let invalid = || format!("\"{text}\" is not a quantity of bytes such as 4Mi");
    let bare = text.trim();
    let bare = bare.strip_suffix('B').unwrap_or(bare);
    let digits = bare.find(|character: char| !character.is_ascii_digit()).unwrap_or(bare.len());
    let number: u64 = bare[..digits].parse().map_err(|_| invalid())?;
    let unit: u64 = match &bare[digits..] {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return Err(invalid()),
    };
    number.checked_mul(unit).and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(invalid)
}
