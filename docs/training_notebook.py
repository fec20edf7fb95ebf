# %% [markdown]
# # A look at a data set, and a ranker of one's own
#
# A script in cells: run it as it is, or cell by cell in an editor that knows `# %%`, or turn it
# into a notebook. It needs the extra `train` and a data set, from `foryou train export` or
#
#     foryou train history samples/dartpost --out data
#     python docs/training_notebook.py data
#
# Everything here is what `foryou train` does, a step at a time (docs/training.md).

# %%
import sys
from pathlib import Path

import lightgbm
import numpy as np

from training.baselines import logistic_regression
from training.dataset import LABELS, learnable, read
from training.evaluate import MAIN, evaluate
from training.fit import Fitting, fit_lambdarank
from training.split import split

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else "data")

# %% [markdown]
# ## What is there
#
# A row is a post in a slate, a query is a slate. Only rows that were on a screen and whose time for
# an answer is over teach anything.

# %%
everything = read(FOLDER)
data = learnable(everything)
print(f"{len(data):,} of {len(everything):,} rows teach, in {len(data.queries):,} slates")
for label, name in enumerate(LABELS):
    print(f"  {name:8} {(data['label'] == label).mean():8.3%}")

# %% [markdown]
# What is unknown is NaN, never 0. A feature that is unknown everywhere teaches nothing; one that is
# known here and not while serving would teach what is not so.

# %%
unknown = np.isnan(data.matrix).mean(axis=0)
for name, share in zip(data.about.features, unknown, strict=True):
    if share:
        print(f"  {name:20} unknown in {share:.1%}")

# %% [markdown]
# ## Three parts, in order of time
#
# A gap of one label window lies between them: what people did about a slate in the gap would reach
# into the next part.

# %%
parts = split(data, valid_share=0.1, test_share=0.4)
print(*(f"{name} {len(getattr(parts, name).queries)}" for name in ("train", "valid", "test")))

# %% [markdown]
# ## Two rankers of one's own
#
# Few data want small trees with many rows in a leaf. Change anything, and see what it does.

# %%
small = Fitting(rounds=80, patience=0, leaves=7, learning_rate=0.05, least_rows_in_leaf=200)
large = Fitting(rounds=80, patience=0, leaves=63, learning_rate=0.1)
boosters = {
    name: lightgbm.Booster(model_str=fit_lambdarank(parts.train, parts.valid, fitting))
    for name, fitting in {"small": small, "large": large}.items()
}

# %% [markdown]
# ## Judged on what came later
#
# Intervals are over slates. "Beats" wants the whole interval above the other's.

# %%
scores = {name: booster.predict(parts.test.matrix) for name, booster in boosters.items()}
scores["logistic_regression"] = logistic_regression(parts.train)(parts.test)
found = evaluate(parts.test, scores, model="small", seed=1)
for name, metrics in found.rankers.items():
    each = metrics[MAIN]
    print(f"  {name:20} {MAIN} {each.mean:.3f} [{each.low:.3f}, {each.high:.3f}]")
print(f"  small beats {', '.join(found.beaten) or 'none of them'}")

# %% [markdown]
# ## Where it is weak

# %%
for each in found.slices:
    means = "  ".join(f"{name} {value.mean:.3f}" for name, value in each.rankers.items())
    print(f"  {each.name:24} {each.n_rows:7,} rows  {means}")

# %% [markdown]
# ## Why a post stands where it stands
#
# What each feature adds to a score (SHAP): the parts sum up to it.

# %%
slate = slice(parts.test.starts[0], parts.test.starts[1])
first = slate.start + int(np.argmax(scores["small"][slate]))
added = boosters["small"].predict(parts.test.matrix[[first]], pred_contrib=True)[0]
for place in np.argsort(-np.abs(added[:-1]))[:5]:
    value = parts.test.matrix[first, place]
    print(f"  {data.about.features[place]:20} is {value:8.2f} and adds {added[place]:+.3f}")

# %% [markdown]
# ## And then
#
# `foryou train fit` with the same options writes these trees with their manifest, and
# `foryou models promote` puts them in front of people when the gate lets them pass.
