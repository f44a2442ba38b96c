//! Random names. A run's name distinguishes its event numbers from those of other runs of the
//! server.

/// Returns eight random letters and digits.
///
/// # Panics
/// The system gives no random numbers.
pub(crate) fn run_name() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0_u8; 8];
    getrandom::fill(&mut bytes).expect("the system gives random numbers");
    bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect()
}

/// Returns 32 random letters and digits, a name that cannot be guessed.
///
/// # Panics
/// The system gives no random numbers.
pub(crate) fn secret_name() -> String {
    (0..4).map(|_| run_name()).collect()
}
