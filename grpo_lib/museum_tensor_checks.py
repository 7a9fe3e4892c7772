"""Checks for your own code, on tensors and texts: mask, advantages, loss, reward. Each knows one silent failure.

    check_mask_keeps_first_eos(my_mask)     # ✓ or ✗, and what is wrong

A check calls your function with a few numbers whose right result is known beforehand, and returns a `Finding`. It is
true if the property holds: `assert check_kl_has_gradient(my_loss)` is a test. `grpo_lib.museum_checks` has the others.
"""

import math
from dataclasses import dataclass

import torch

__all__ = [
    "Finding",
    "check_advantages_stay_in_group",
    "check_clip_is_pessimistic",
    "check_each_reward_pushes_its_own",
    "check_empty_answer_earns_nothing",
    "check_kl_has_gradient",
    "check_kl_is_a_cost",
    "check_mask_ignores_pad_id",
    "check_mask_keeps_first_eos",
]

EOS, PAD = 2, 0
ROWS = ((5, 6, EOS), (5, EOS), (EOS,), (5, 6, 7, 8, 9))  # the last was cut at the length limit


@dataclass(frozen=True)
class Finding:
    """What a check found. check: its name; holds: whether the property holds; message: what was seen, and the cause."""

    check: str
    holds: bool
    message: str

    def __bool__(self):
        return self.holds

    def __repr__(self):
        return f"{'✓' if self.holds else '✗'} {self.check}: {self.message}"


def check_mask_keeps_first_eos(mask):
    """Check `mask(completion_ids, eos_token_id, pad_token_id)`: 1 up to *and with* the first end token.

    >>> check_mask_keeps_first_eos(lambda ids, eos, pad: (ids != eos).cumprod(dim=1))
    ✗ check_mask_keeps_first_eos: row 0 ends at position 2 and the mask is 0 there: the end token gets no gradient.
    """
    name, ids = "check_mask_keeps_first_eos", padded_rows(PAD)
    found = mask(ids, EOS, PAD)
    for row, tokens in enumerate(ROWS):
        end = len(tokens) - 1
        if tokens[end] == EOS and not found[row, end]:
            text = f"row {row} ends at position {end} and the mask is 0 there: the end token gets no gradient."
            return Finding(name, False, text)
        if found[row].tolist() != [1] * len(tokens) + [0] * (ids.shape[1] - len(tokens)):
            text = f"row {row} has {len(tokens)} tokens with its end and the mask is {found[row].tolist()}."
            return Finding(name, False, text)
    return Finding(name, True, "1 up to and with the first end token, and all 1 where a row was cut.")


def check_mask_ignores_pad_id(mask):
    """Check `mask(completion_ids, eos_token_id, pad_token_id)`: the same mask whichever id the padding has.

    >>> check_mask_ignores_pad_id(lambda ids, eos, pad: (ids != pad).long())
    ✗ check_mask_ignores_pad_id: with pad = eos the mask changes at 3 positions: padding hides the end token.
    """
    moved = int((mask(padded_rows(PAD), EOS, PAD) != mask(padded_rows(EOS), EOS, EOS)).sum())
    if moved:
        text = f"with pad = eos the mask changes at {moved} positions: padding hides the end token."
        return Finding("check_mask_ignores_pad_id", False, text)
    return Finding("check_mask_ignores_pad_id", True, "the same mask with a pad id of its own and with pad = eos.")


def check_advantages_stay_in_group(advantages):
    """Check `advantages(rewards, num_generations)`: compared within each group, so every group sums to 0.

    >>> check_advantages_stay_in_group(lambda rewards, G: rewards - rewards.mean())
    ✗ check_advantages_stay_in_group: the groups' sums are 0.50, -1.50, 1.00, not 0: other prompts' rewards are in them.
    """
    rewards = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.5, 1.0])
    sums = torch.as_tensor(advantages(rewards, 4)).reshape(3, 4).sum(dim=1)
    shown = ", ".join(f"{value:.2f}" for value in sums.tolist())
    if not sums.isfinite().all():
        text = f"the groups' sums are {shown}: equal rewards have std 0, and 0 / 0 is nan; add eps to the std."
        return Finding("check_advantages_stay_in_group", False, text)
    if sums.abs().max() > 1e-4:
        text = f"the groups' sums are {shown}, not 0: other prompts' rewards are in them."
        return Finding("check_advantages_stay_in_group", False, text)
    return Finding("check_advantages_stay_in_group", True, "each group sums to 0.")


def check_kl_is_a_cost(loss):
    """Check `loss(log_probs, old_log_probs, ref_log_probs, advantages, mask, beta=…)`: being away from π_ref costs.

    Without advantages the loss is beta · KL. On the numbers used here it is positive for k1, k2 and k3 alike.
    """
    value = kl_alone(loss)[0]
    if math.isnan(value):
        return Finding("check_kl_is_a_cost", False, "with all advantages 0 the loss is nan.")
    if value < 0:
        text = f"with all advantages 0 the loss is {value:.3f}, below 0: the policy is paid for the distance."
        return Finding("check_kl_is_a_cost", False, text)
    return Finding("check_kl_is_a_cost", True, f"with all advantages 0 the loss is {value:.3f}, not below 0.")


def check_kl_has_gradient(loss):
    """Check `loss(log_probs, old_log_probs, ref_log_probs, advantages, mask, beta=…)`: beta acts on the gradient.

    Without advantages the gradient is that of beta · KL, and π is not π_ref.
    """
    size = kl_alone(loss)[1].abs().max().item()
    if not size > 0:
        text = f"with all advantages 0 the gradient is {size:g}, although π is not π_ref: beta teaches nothing."
        return Finding("check_kl_has_gradient", False, text)
    return Finding("check_kl_has_gradient", True, f"with all advantages 0 the gradient reaches {size:.3f}.")


def check_each_reward_pushes_its_own(loss):
    """Check `loss(…)` on fresh samples: a completion with A > 0 is pushed up, with A < 0 down, with A = 0 nowhere.

    As many completions as tokens: (B,) times (B, T) broadcasts without an error then.
    """
    advantages = torch.tensor([1.0, -2.0, 0.0, 1.0])
    push = -_gradient(loss, torch.full((4, 4), -1.0), torch.full((4, 4), -1.0), advantages)[1]
    if not torch.equal(push.sign(), advantages.sign()[:, None].expand(4, 4)):
        shown = ", ".join(f"{value:+.3f}" for value in push[:, 0].tolist())
        text = f"advantages 1, -2, 0, 1 push the first tokens by {shown}: a completion is not pushed by its own."
        return Finding("check_each_reward_pushes_its_own", False, text)
    return Finding("check_each_reward_pushes_its_own", True, "each completion is pushed the way of its own advantage.")


def check_clip_is_pessimistic(loss, epsilon=0.2):
    """Check `loss(…)` away from π_old: what went too far is let go, what went the wrong way is pushed back.

    Args:
        loss: as above, with a clip that cuts gradients off; CISPO and SAPO have none. epsilon: its clip range.
    """
    far = 2.5 * epsilon
    cases = {
        (1 + far, 1.0): ("A > 0, ratio too high", False),
        (1 - far, -1.0): ("A < 0, ratio too low", False),
        (1 - far, 1.0): ("A > 0, ratio too low", True),
        (1 + far, -1.0): ("A < 0, ratio too high", True),
    }
    for (ratio, advantage), (where, pushed) in cases.items():
        old = torch.full((1, 1), -2.0)
        _, gradient = _gradient(loss, old + torch.tensor(ratio).log(), old, torch.tensor([advantage]))
        if bool(gradient.abs().max() > 0) is not pushed:
            does, should = ("no push", "a push") if pushed else ("a push", "none")
            return Finding(
                "check_clip_is_pessimistic", False, f"{where}: there is {does} and there should be {should}."
            )
    return Finding("check_clip_is_pessimistic", True, "too far is let go, the wrong way is pushed back.")


def check_empty_answer_earns_nothing(reward, *, gold=("85", "0"), form="<answer>{}</answer>"):
    """Check `reward(prompts, completions, answer)`: no answer earns less than the right one, no more than a wrong one.

    Args:
        reward: a reward function. gold: gold answers, each is tried. form: how an answer is written.
    """
    name, empty = "check_empty_answer_earns_nothing", ("", form.format(""), form.format(" "))
    wrong = ("no idea", form.format("none"), form.format("none"))  # beside each empty text, one of its form
    for right in [gold] if isinstance(gold, str) else gold:
        texts = [*empty, *wrong, form.format(right)]
        paid = [float(pay) for pay in reward(prompts=["?"] * 7, completions=texts, answer=[right] * 7)]
        for text, pay, beside in zip(empty, paid[:3], paid[3:6], strict=True):
            if not (pay < paid[6] and pay <= beside):
                what = f"the text {text!r} is paid {pay:g} and the right answer {paid[6]:g}: nothing need be answered."
                return Finding(name, False, what)
    return Finding(name, True, f"{max(paid[:3]):g} for an empty answer, {paid[6]:g} for the right one.")


def padded_rows(pad):
    width = max(map(len, ROWS))
    return torch.tensor([[*row, *[pad] * (width - len(row))] for row in ROWS])


def kl_alone(loss):
    """Loss and gradient where only the KL is left: no advantages, π above and below π_ref, and mostly above."""
    log_probs = torch.tensor([[-1.0, -0.5], [-2.0, -0.7]])
    ref = torch.tensor([[-1.5, -0.9], [-1.4, -1.7]])
    return _gradient(loss, log_probs, log_probs, torch.zeros(2), ref, beta=1.0)


def _gradient(loss, log_probs, old, advantages, ref=None, beta=0.0):
    log_probs = log_probs.clone().requires_grad_()
    mask = torch.ones_like(log_probs, dtype=torch.long)
    value = loss(log_probs, old, log_probs.detach() if ref is None else ref, advantages, mask, beta=beta)
    if not value.requires_grad:
        return value.item(), torch.zeros_like(log_probs)
    return value.item(), torch.autograd.grad(value, log_probs)[0]
