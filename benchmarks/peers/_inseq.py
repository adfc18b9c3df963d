"""inseq: integrated gradients for each token of a continuation by a causal language model."""

import importlib.metadata
import json
import sys
import time
import warnings

import inseq
import torch

warnings.simplefilter("ignore")
job = json.load(sys.stdin)
torch.set_num_threads(job["threads"])
model = inseq.load_model(job["model"], "integrated_gradients")
texts = (job["prompt"], f"{job['prompt']} {job['continuation']}")
began = time.perf_counter()
found = model.attribute(*texts, n_steps=job["n_steps"], internal_batch_size=job["rows_at_once"], show_progress=False)
report = {
    "version": importlib.metadata.version("inseq"),
    "transformers": importlib.metadata.version("transformers"),
    "seconds": time.perf_counter() - began,
    "shape": list(found[0].target_attributions.shape),
}
print("\n" + json.dumps(report))
