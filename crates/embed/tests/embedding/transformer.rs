//! Sentence transformers in a folder: a very small one, broken ones, and all-MiniLM-L6-v2.

use std::{fs, io::Write as _, path::Path};

use marquetry_embed::{
    EmbedError, Embedder,
    transformer::{Transformer, TransformerOptions},
};
use serde_json::json;
use tempfile::TempDir;

use super::folder::{self, DIMENSION, MAX_TOKENS};

fn model_folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    folder::write(folder.path(), 1);
    folder
}

async fn open(folder: &Path) -> Transformer {
    Transformer::open(TransformerOptions::new(folder)).await.unwrap()
}

async fn refusal(options: TransformerOptions) -> String {
    let error = Transformer::open(options).await.err().expect("it must not be opened");
    assert!(matches!(error, EmbedError::Config(_)), "{error}");
    error.to_string()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn cosine(left: &[f32], right: &[f32]) -> f32 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

#[track_caller]
fn assert_near(left: &[f32], right: &[f32]) {
    let difference = left.iter().zip(right).map(|(left, right)| (left - right).abs());
    assert!(
        left.len() == right.len() && difference.fold(0.0, f32::max) < 1e-5,
        "{left:?} {right:?}"
    );
}

#[tokio::test]
async fn a_text_has_the_same_vector_alone_and_among_others() {
    let folder = model_folder();
    let many = texts(&[
        "Bread.",
        "Bread is made of flour and water.",
        "",
        "Water and flour and bread and water and flour.",
        "flour",
    ]);
    let whole = open(folder.path()).await;
    let mut options = TransformerOptions::new(folder.path());
    // The batch is smaller than one text, so each text is a batch.
    options.batch_tokens = 1;
    let alone = Transformer::open(options).await.unwrap();
    assert_eq!(whole.model(), alone.model());
    let whole = whole.embed(&many).await.unwrap();
    let alone = alone.embed(&many).await.unwrap();
    assert_eq!(whole.len(), many.len());
    for (whole, alone) in whole.iter().zip(&alone) {
        assert_eq!(whole.len(), DIMENSION);
        assert!((cosine(whole, whole) - 1.0).abs() < 1e-5, "{whole:?}");
        assert_near(whole, alone);
    }
    assert!(cosine(&whole[0], &whole[1]) < 0.999, "different texts have different vectors");
}

#[tokio::test]
async fn long_texts_are_truncated() {
    let folder = model_folder();
    let model = open(folder.path()).await;
    let long = "bread and ".repeat(500);
    let beginning = "bread and ".repeat((MAX_TOKENS - 2) / 2);
    let vectors = model.embed(&[long.clone(), beginning, "bread".to_owned()]).await.unwrap();
    assert_near(&vectors[0], &vectors[1]);
    assert!(cosine(&vectors[0], &vectors[2]) < 0.999);
    assert_eq!(model.count_tokens(&long), 1000);
    assert_eq!(model.count_tokens("Bread is made."), 4);
    assert_eq!(model.count_tokens(""), 0);
}

#[tokio::test]
async fn the_same_files_have_one_identity_in_any_folder() {
    let one = model_folder();
    let other = model_folder();
    let identity = open(one.path()).await.model().clone();
    assert_eq!(identity.dimension, DIMENSION);
    assert!(identity.identity.starts_with("bert-2x8#"), "{}", identity.identity);
    assert_eq!(&identity, open(other.path()).await.model());
    // Files that the vectors depend on are part of the identity.
    let before = open(other.path()).await.embed(&texts(&["bread and water"])).await.unwrap();
    let pooling = json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false});
    fs::write(other.path().join("1_Pooling/config.json"), pooling.to_string()).unwrap();
    let first = open(other.path()).await;
    assert_ne!(&identity, first.model());
    let after = first.embed(&texts(&["bread and water"])).await.unwrap();
    assert!(cosine(&before[0], &after[0]) < 0.999);
    folder::write(other.path(), 2);
    assert_ne!(&identity, open(other.path()).await.model());
    folder::write(other.path(), 1);
    assert_eq!(&identity, open(other.path()).await.model());
    fs::write(other.path().join("sentence_bert_config.json"), "{\"max_seq_length\": 5}").unwrap();
    assert_ne!(&identity, open(other.path()).await.model());
    for (name, value) in [
        ("num_attention_heads", json!(4)),
        ("hidden_act", json!("relu")),
        ("layer_norm_eps", json!(0.1)),
    ] {
        folder::write(other.path(), 1);
        assert_eq!(&identity, open(other.path()).await.model());
        let config = fs::read(other.path().join("config.json")).unwrap();
        let mut config: serde_json::Value = serde_json::from_slice(&config).unwrap();
        config[name] = value;
        fs::write(other.path().join("config.json"), config.to_string()).unwrap();
        assert_ne!(&identity, open(other.path()).await.model(), "{name}");
    }
}

#[tokio::test]
async fn invalid_folders_are_refused_with_a_reason() {
    let refused = async |change: &dyn Fn(&Path)| {
        let folder = model_folder();
        change(folder.path());
        let error = refusal(TransformerOptions::new(folder.path())).await;
        assert!(error.contains(folder.path().to_str().unwrap()), "{error}");
        error
    };
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let missing = refused(&|folder| fs::remove_file(folder.join(name)).unwrap()).await;
        assert!(missing.contains(name) && missing.contains("No such file"), "{missing}");
        for garbage in [&b""[..], b"{}", b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}", b"[[[["] {
            let broken = refused(&|folder| fs::write(folder.join(name), garbage).unwrap()).await;
            assert!(broken.contains(name), "{broken}");
        }
    }
    let cut = refused(&|folder| {
        let weights = fs::read(folder.join("model.safetensors")).unwrap();
        fs::write(folder.join("model.safetensors"), &weights[..weights.len() - 4]).unwrap();
    });
    assert!(cut.await.contains("model.safetensors"));
    let with = async |name: &str, value: serde_json::Value| {
        refused(&|folder| fs::write(folder.join(name), value.to_string()).unwrap()).await
    };
    let kind = with("modules.json", json!([{"type": "sentence_transformers.models.Dense"}])).await;
    assert!(kind.contains("\"Dense\""), "{kind}");
    let pooling = with("1_Pooling/config.json", json!({"pooling_mode_max_tokens": true})).await;
    assert!(pooling.contains("pooling_mode_max_tokens"), "{pooling}");
    let short = with("sentence_bert_config.json", json!({"max_seq_length": 2})).await;
    assert!(short.contains("2 tokens"), "{short}");
    let change = |name: &str, value: serde_json::Value| {
        let folder = model_folder();
        let config = fs::read(folder.path().join("config.json")).unwrap();
        let mut config: serde_json::Value = serde_json::from_slice(&config).unwrap();
        config[name] = value;
        config
    };
    let kind = with("config.json", change("model_type", json!("llama"))).await;
    assert!(kind.contains("model_type"), "{kind}");
    let tokens = with("config.json", change("vocab_size", json!(4))).await;
    assert!(tokens.contains("more tokens"), "{tokens}");
    let shape = with("config.json", change("hidden_size", json!(16))).await;
    assert!(shape.contains("model.safetensors"), "{shape}");

    let folder = model_folder();
    let mut options = TransformerOptions::new(folder.path());
    options.max_file_bytes = 1000;
    assert!(refusal(options).await.contains("max_file_bytes"));
    let mut options = TransformerOptions::new(folder.path());
    options.batch_tokens = 0;
    assert!(refusal(options).await.contains("batch_tokens"));
}

/// The beginnings of vectors that were computed from the same weights by forty lines of NumPy, in
/// 64 bits.
#[tokio::test]
async fn minilm_gives_the_reference_vectors() {
    const EXPECTED: [(&str, [f32; 6]); 3] = [
        (
            "A cat sleeps on the mat.",
            [0.118411, -0.013457, -0.048295, 0.085401, -0.011775, 0.052774],
        ),
        (
            "The kitten is asleep on a rug, and nobody wakes it.",
            [0.096621, 0.041086, -0.002471, 0.084281, -0.009992, 0.013715],
        ),
        (
            "Jet engines compress air before they burn fuel.",
            [-0.082113, 0.05051, -0.004588, 0.133641, 0.028419, -0.054481],
        ),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/models/all-MiniLM-L6-v2");
    if !folder.join("version").exists() {
        let missing = "all-MiniLM-L6-v2 not found; run crates/embed/tests/embedding/install";
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{missing}");
        // Not `eprintln!`, whose output the test harness keeps to itself when a test passes.
        let _ = std::io::stderr().write_all(format!("SKIPPED (1): {missing}\n").as_bytes());
        return;
    }
    let model = open(&folder).await;
    assert!(model.model().identity.starts_with("bert-6x384#"), "{}", model.model().identity);
    let vectors = model.embed(&texts(&EXPECTED.map(|(text, _)| text))).await.unwrap();
    for ((text, expected), vector) in EXPECTED.iter().zip(&vectors) {
        let differs = vector.iter().zip(expected).any(|(left, right)| (left - right).abs() > 2e-5);
        assert!(vector.len() == 384 && !differs, "{text}: {:?}", &vector[..6]);
    }
    assert!(cosine(&vectors[0], &vectors[1]) > 0.5 && cosine(&vectors[0], &vectors[2]) < 0.2);
    assert_eq!(model.count_tokens(EXPECTED[0].0), 7);
}
