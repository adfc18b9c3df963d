"""Numbers of the paper's tables, as printed there (Sanyal and Ren, 2021)."""

from typing import Final

# Tables 1 to 3: (data set, architecture) -> method -> log-odds, comprehensiveness, sufficiency, WAE.
TABLES: Final[dict[tuple[str, str], dict[str, tuple[float | None, ...]]]] = {
    ("sst2", "DistilBERT"): {
        "input_x_gradient": (-0.402, 0.112, 0.375, None),
        "deeplift": (-0.196, 0.053, 0.489, None),
        "gradient_shap": (-0.778, 0.216, 0.308, None),
        "integrated_gradients": (-0.950, 0.248, 0.275, 0.344),
        "dig_greedy": (-1.222, 0.310, 0.237, 0.229),
        "dig_maxcount": (-1.259, 0.307, 0.241, 0.227),
    },
    ("sst2", "RoBERTa"): {
        "input_x_gradient": (-0.318, 0.085, 0.398, None),
        "deeplift": (-0.300, 0.078, 0.432, None),
        "gradient_shap": (-0.523, 0.168, 0.347, None),
        "integrated_gradients": (-0.738, 0.222, 0.250, 0.669),
        "dig_greedy": (-0.756, 0.218, 0.215, 0.460),
        "dig_maxcount": (-0.826, 0.227, 0.238, 0.439),
    },
    ("sst2", "BERT"): {
        "input_x_gradient": (-0.502, 0.168, 0.366, None),
        "deeplift": (-0.175, 0.063, 0.470, None),
        "gradient_shap": (-0.686, 0.225, 0.333, None),
        "integrated_gradients": (-0.670, 0.237, 0.396, 0.302),
        "dig_greedy": (-0.879, 0.292, 0.374, 0.249),
        "dig_maxcount": (-0.777, 0.272, 0.377, 0.173),
    },
    ("imdb", "DistilBERT"): {
        "input_x_gradient": (-0.197, 0.081, 0.212, None),
        "deeplift": (-0.021, -0.009, 0.534, None),
        "gradient_shap": (-0.473, 0.185, 0.154, None),
        "integrated_gradients": (-0.446, 0.182, 0.224, 0.379),
        "dig_greedy": (-0.878, 0.319, 0.133, 0.256),
        "dig_maxcount": (-0.795, 0.296, 0.152, 0.255),
    },
    ("imdb", "RoBERTa"): {
        "input_x_gradient": (-0.195, 0.043, 0.279, None),
        "deeplift": (-0.157, 0.028, 0.340, None),
        "gradient_shap": (-0.416, 0.129, 0.196, None),
        "integrated_gradients": (-0.733, 0.226, 0.084, 0.708),
        "dig_greedy": (-0.683, 0.198, 0.100, 0.484),
        "dig_maxcount": (-0.470, 0.121, 0.213, 0.470),
    },
    ("imdb", "BERT"): {
        "input_x_gradient": (-0.731, 0.102, 0.231, None),
        "deeplift": (-0.335, 0.023, 0.486, None),
        "gradient_shap": (-0.853, 0.190, 0.255, None),
        "integrated_gradients": (-0.641, 0.107, 0.295, 0.333),
        "dig_greedy": (-1.152, 0.221, 0.240, 0.287),
        "dig_maxcount": (-0.995, 0.195, 0.245, 0.190),
    },
    ("rotten_tomatoes", "DistilBERT"): {
        "input_x_gradient": (-0.152, 0.068, 0.315, None),
        "deeplift": (-0.077, 0.017, 0.372, None),
        "gradient_shap": (-0.298, 0.156, 0.270, None),
        "integrated_gradients": (-0.424, 0.208, 0.189, 0.348),
        "dig_greedy": (-0.501, 0.257, 0.184, 0.329),
        "dig_maxcount": (-0.467, 0.231, 0.190, 0.230),
    },
    ("rotten_tomatoes", "RoBERTa"): {
        "input_x_gradient": (-0.158, 0.054, 0.406, None),
        "deeplift": (-0.150, 0.050, 0.413, None),
        "gradient_shap": (-0.290, 0.128, 0.338, None),
        "integrated_gradients": (-0.368, 0.149, 0.317, 0.677),
        "dig_greedy": (-0.393, 0.148, 0.294, 0.465),
        "dig_maxcount": (-0.361, 0.133, 0.332, 0.444),
    },
    ("rotten_tomatoes", "BERT"): {
        "input_x_gradient": (-0.801, 0.204, 0.398, None),
        "deeplift": (-0.388, 0.096, 0.438, None),
        "gradient_shap": (-0.809, 0.235, 0.388, None),
        "integrated_gradients": (-0.789, 0.203, 0.418, 0.305),
        "dig_greedy": (-1.056, 0.267, 0.416, 0.251),
        "dig_maxcount": (-0.874, 0.237, 0.430, 0.178),
    },
}
# Table 4, DistilBERT on SST-2: log-odds, mean and standard deviation over five seeds.
RANDOM: Final = {"random_anchor": (-1.217, 0.024), "random_neighbor": (-1.247, 0.013)}
# Table 5: up-sampling factor -> log-odds, WAE, delta %.
UPSAMPLED: Final = {
    0: (-1.259, 0.227, 4.926),
    1: (-1.229, 0.230, 3.728),
    2: (-1.184, 0.232, 2.752),
    3: (-1.181, 0.233, 1.862),
}
# Appendix: m -> log-odds and delta % of IG, then of DIG.
LENGTHS: Final = {
    10: (-0.984, 8.064, -1.252, 2.263),
    30: (-0.950, 3.394, -1.259, 4.926),
    100: (-0.933, 1.235, -1.258, 9.849),
    300: (-0.940, 0.703, -1.242, 10.955),
}
# Appendix: K -> log-odds, WAE, delta %.
NEIGHBORS: Final = {
    10: (-1.258, 0.276, 21.405),
    30: (-1.263, 0.310, 12.228),
    100: (-1.277, 0.276, 14.155),
    200: (-1.194, 0.295, 10.647),
    300: (-1.216, 0.286, 8.523),
    500: (-1.259, 0.227, 4.926),
}
# Appendix: Pearson correlation of log-odds and WAE over IG and the two DIGs.
CORRELATION: Final = {
    ("sst2", "DistilBERT"): 1.00,
    ("sst2", "RoBERTa"): 0.00,
    ("sst2", "BERT"): 0.42,
    ("imdb", "DistilBERT"): 0.98,
    ("imdb", "RoBERTa"): -0.68,
    ("imdb", "BERT"): 0.51,
    ("rotten_tomatoes", "DistilBERT"): 0.21,
    ("rotten_tomatoes", "RoBERTa"): 0.22,
    ("rotten_tomatoes", "BERT"): 0.23,
}
