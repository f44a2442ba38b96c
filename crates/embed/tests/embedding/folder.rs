//! A very small sentence transformer, made for a test.

use std::{fs, path::Path};

use serde_json::{Map, Value, json};

/// Dimension of its vectors.
pub(crate) const DIMENSION: usize = 8;

/// Maximum number of tokens of a text, with the two special ones.
pub(crate) const MAX_TOKENS: usize = 12;

const VOCABULARY: [&str; 12] =
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "bread", "flour", "water", "is", "made", "of", "and", "."];

fn special(id: usize) -> Value {
    json!({"id": id, "content": VOCABULARY[id], "special": true, "single_word": false,
    "lstrip": false, "rstrip": false, "normalized": false})
}

/// Writes the model into a folder; its weights come from the seed.
pub(crate) fn write(folder: &Path, seed: u32) {
    fs::create_dir_all(folder.join("1_Pooling")).unwrap();
    let put = |name: &str, value: Value| fs::write(folder.join(name), value.to_string()).unwrap();
    put("config.json", config());
    put(
        "1_Pooling/config.json",
        json!({"word_embedding_dimension": DIMENSION, "pooling_mode_mean_tokens": true}),
    );
    put("sentence_bert_config.json", json!({"max_seq_length": MAX_TOKENS}));
    let vocabulary: Map<String, Value> =
        VOCABULARY.iter().zip(0..).map(|(token, id)| ((*token).to_owned(), json!(id))).collect();
    put(
        "tokenizer.json",
        json!({
            "version": "1.0",
            // As in files of sentence transformers, whose settings for padding and truncation must
            // be ignored.
            "truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 0},
            "padding": {"strategy": {"Fixed": 128}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
                "pad_type_id": 0, "pad_token": "[PAD]"},
            "added_tokens": [special(0), special(1), special(2), special(3)],
            "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                "strip_accents": null, "lowercase": true},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
            "decoder": null,
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100, "vocab": vocabulary},
        }),
    );
    fs::write(folder.join("model.safetensors"), weights(seed)).unwrap();
}

fn config() -> Value {
    json!({
        "model_type": "bert", "vocab_size": VOCABULARY.len(), "hidden_size": DIMENSION, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 16, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
        "max_position_embeddings": 16, "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-12,
        "pad_token_id": 0, "position_embedding_type": "absolute",
    })
}

/// The format safetensors: the length of a header, the header, the numbers.
fn weights(seed: u32) -> Vec<u8> {
    let mut tensors: Vec<(String, Vec<usize>)> = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![VOCABULARY.len(), DIMENSION]),
        ("embeddings.position_embeddings.weight".to_owned(), vec![16, DIMENSION]),
        ("embeddings.token_type_embeddings.weight".to_owned(), vec![2, DIMENSION]),
    ];
    let mut layer = |name: &str, shape: &[usize]| {
        tensors.push((format!("{name}.weight"), shape.to_vec()));
        tensors.push((format!("{name}.bias"), shape[..1].to_vec()));
    };
    layer("embeddings.LayerNorm", &[DIMENSION]);
    for number in 0..2 {
        let mut layer = |name: &str, shape: &[usize]| {
            layer(&format!("encoder.layer.{number}.{name}"), shape);
        };
        for name in ["query", "key", "value"] {
            layer(&format!("attention.self.{name}"), &[DIMENSION, DIMENSION]);
        }
        layer("attention.output.dense", &[DIMENSION, DIMENSION]);
        layer("attention.output.LayerNorm", &[DIMENSION]);
        layer("intermediate.dense", &[16, DIMENSION]);
        layer("output.dense", &[DIMENSION, 16]);
        layer("output.LayerNorm", &[DIMENSION]);
    }
    let mut header = Map::new();
    let mut data: Vec<u8> = Vec::new();
    let mut random = seed;
    for (name, shape) in tensors {
        let start = data.len();
        for _ in 0..shape.iter().product::<usize>() {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number = (random >> 8) as f32 / (1 << 23) as f32 - 1.0;
            // As in trained models, so that the common part of all vectors is not larger than the
            // differences.
            let number = match &*name {
                name if name.ends_with("LayerNorm.weight") => 1.0 + number / 10.0,
                name if name.ends_with(".bias") => number / 10.0,
                _ => number,
            };
            data.extend_from_slice(&number.to_le_bytes());
        }
        header.insert(
            name,
            json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}),
        );
    }
    let mut header = Value::Object(header).to_string();
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}
